//! Reads the authorities in a ConfigMap.

use std::collections::BTreeSet;

use kinds::Map;
use pki::cert::KnownAuthority;
use pki::pem;
use serde_json::Value;

use super::tombstones::digest;
use crate::registry::meta;

/// The key of the bundle in the ConfigMap (NB-13).
pub const BUNDLE_KEY: &str = "ca-bundle.crt";
/// The annotation of the ConfigMap that allows revoked authorities again: their SHA-256 digests in hexadecimal,
/// separated by commas (NB-25).
pub const ACKNOWLEDGE: &str = "portcullis.dev/acknowledge";
/// The maximum number of certificates in a ConfigMap. Without a limit, whoever may write it could make every handshake
/// expensive.
const MOST: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) authorities: Vec<KnownAuthority>,
    /// The ignored entries, with the reasons (NB-16).
    pub(super) faults: Vec<String>,
    pub(super) acknowledged: BTreeSet<[u8; 32]>,
}

impl Source {
    /// Reads a ConfigMap. One that is being deleted counts as empty.
    pub(super) fn read(config_map: &Map) -> Self {
        let mut read = Self::default();
        if meta::is_terminating(config_map) {
            return read;
        }
        let bundle = config_map.get("data").and_then(|data| data.get(BUNDLE_KEY)).and_then(Value::as_str);
        let blocks = pem::blocks(bundle.unwrap_or_default().as_bytes());
        for (number, block) in (1..).zip(blocks.into_iter().filter(|block| block.label == "CERTIFICATE")) {
            if number > MOST {
                read.faults.push(format!("only the first {MOST} certificates count"));
                break;
            }
            match KnownAuthority::read(block.der) {
                Ok(authority) => read.authorities.push(authority),
                Err(why) => read.faults.push(format!("certificate {number}: {why}")),
            }
        }
        let annotations = meta::of(config_map).get("annotations");
        let named = annotations.and_then(|all| all.get(ACKNOWLEDGE)).and_then(Value::as_str);
        read.acknowledged = named.unwrap_or_default().split(',').filter_map(digest).collect();
        read
    }
}
