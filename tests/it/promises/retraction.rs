//! Facts that the user takes back in words: at once invisible, restorable, then erased.
