//! What failed the original's users, one test each.
