//! The page (AU-136 to AU-139): one HTML file that asks nobody for anything. Everything is in it without scripts; with scripts it also
//! has pictures, filters, and a search for paths. It never writes a name of an object without escaping.
//!
//! * `escape`, `encode`: text in HTML, and lists in JSON
//! * `content`: what is on the page
//! * `head`, `ways`, `findings`, `nodes`, `rules`: its parts as HTML
//! * `data`: the graph for the scripts
//! * `page`: the whole page, and how it is kept small

mod content;
mod data;
mod encode;
mod escape;
mod findings;
mod fold;
mod head;
mod nodes;
mod page;
mod rules;
mod ways;
mod words;

pub(in crate::command) use self::content::{Audited, Content};
pub(in crate::command) use self::page::write;
