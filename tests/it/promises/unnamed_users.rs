//! Users who send no identity never see each other's conversations.
