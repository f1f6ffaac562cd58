//! The attributes of toma.
