//! Details of the source documents.
