//! Responses that passed without memory say so.
