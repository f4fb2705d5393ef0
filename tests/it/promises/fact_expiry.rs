//! A deadline in a sentence is not the end of a fact.
