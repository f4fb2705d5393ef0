//! Client histories: nothing stored is hidden or stored twice.
