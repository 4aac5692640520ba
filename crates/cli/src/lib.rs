//! The command line of Portcullis: one file per command under `command`.

pub mod bench;
