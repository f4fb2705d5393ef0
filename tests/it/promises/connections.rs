//! Connection limits: no client can use up the places of others.
