//! The REST API over the table of kinds: one file per verb, the same for every kind.
//!
//! Handlers translate between HTTP and the operations of the registry, and decide nothing. The object of a request is a
//! `Target`, derived from the authorized attributes.

mod binding;
mod create;
mod delete;
mod delete_collection;
mod dispatch;
mod eviction;
mod filtered_list;
mod filtered_watch;
mod get;
mod items;
mod list;
mod patch;
mod render;
pub(crate) mod request;
mod scanning;
mod token_request;
mod update;
mod watch;
mod watch_events;

pub(crate) use self::dispatch::{answer, answer_in_part};
