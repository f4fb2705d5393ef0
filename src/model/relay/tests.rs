//! The relay against a scripted server on the loopback address.
