//! The recall deadline and the first requests of a database outage.
