//! Requests from pages of other sites.
