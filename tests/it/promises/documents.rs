//! Documents inside a message are not statements of the user.
