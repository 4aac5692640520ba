//! A layout for tests: the path of a key is the key, and a value carries the place of its revision.

use std::time::Duration;

use bytes::Bytes;
use portcullis_store::etcd::{GroupResource, Layout, Opened};
use portcullis_store::{Revision, TransformError, Value};

/// Keys under this prefix end by themselves.
pub(crate) const SHORT: &str = "/short/";
/// Keys under this prefix end by themselves after an hour.
pub(crate) const LONG: &str = "/long/";
/// A value that cannot be read.
pub(crate) const DAMAGED: &str = "damaged";
/// How a value begins that would be written differently today.
pub(crate) const STALE: &str = "stale:";

pub(crate) struct Plain;

impl Layout for Plain {
    fn path(&self, key: &str) -> Option<String> {
        key.strip_prefix('/').map(str::to_owned)
    }

    fn key(&self, path: &str) -> Option<Box<str>> {
        (!path.starts_with("foreign/")).then(|| format!("/{path}").into())
    }

    fn prefix(&self, prefix: &str) -> Option<String> {
        prefix.strip_prefix('/').map(str::to_owned)
    }

    fn resource(&self, _: &str) -> GroupResource {
        ("", "things")
    }

    fn seal(&self, _: &str, _: &str, value: &Value) -> Result<Vec<u8>, TransformError> {
        let place = value.revision_at.map_or_else(String::new, |at| at.to_string());
        Ok([place.as_bytes(), b"|", &value.bytes].concat())
    }

    fn open(&self, key: &str, etcd_key: &str, sealed: &[u8], at: Revision) -> Result<Opened, TransformError> {
        assert!(etcd_key.ends_with(key), "{etcd_key} is the key {key}");
        let damaged = || TransformError { key: key.into(), problem: "is damaged".to_owned() };
        if sealed == DAMAGED.as_bytes() {
            return Err(damaged());
        }
        let (sealed, is_stale) = match sealed.strip_prefix(STALE.as_bytes()) {
            Some(sealed) => (sealed, true),
            None => (sealed, false),
        };
        let opened = |value| Opened { value, is_stale };
        let bar = sealed.iter().position(|byte| *byte == b'|').ok_or_else(damaged)?;
        let (place, value) = (&sealed[..bar], &sealed[bar + 1..]);
        if place.is_empty() {
            return Ok(opened(Bytes::copy_from_slice(value)));
        }
        let place: usize = std::str::from_utf8(place).unwrap().parse().unwrap();
        let (before, after) = value.split_at(place);
        Ok(opened([before, at.0.to_string().as_bytes(), after].concat().into()))
    }

    fn lifetime(&self, key: &str) -> Option<Duration> {
        let lifetimes = [(SHORT, Duration::from_secs(2)), (LONG, Duration::from_hours(1))];
        lifetimes.iter().find(|(prefix, _)| key.starts_with(prefix)).map(|(_, lifetime)| *lifetime)
    }
}
