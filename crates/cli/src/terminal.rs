//! Text that comes from outside, for a terminal.

pub(crate) use portcullis_apimachinery::quote::plain;
