//! The commands, one file each.

pub mod approve;
pub mod attest;
pub mod audit;
pub mod bench;
pub mod bootstrap;
pub mod can_i;
pub mod collect;
pub mod complete;
pub mod completions;
pub mod credential;
pub mod diff;
pub mod explain;
pub mod guard;
pub mod manual_pages;
pub mod preflight;
pub mod reach;
pub mod review;
pub mod serve;
pub mod store;
pub mod version;
pub mod webhook;
pub mod who_can;
