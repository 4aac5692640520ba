//! Lists the bootstrap authorities that a cluster trusts and has revoked (NB-37), as the server itself reads them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use kinds::Map;
use portcullis_apimachinery::time::Instant;
use serde_json::Value;

use super::source::Source;
use super::tombstones::{Tombstones, digest, hex};

/// A bootstrap authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its common name.
    pub common_name: String,
    /// The SHA-256 digest of its certificate, in hexadecimal.
    pub sha256: String,
    /// Its expiry; none if it was not recorded.
    pub not_after: Option<SystemTime>,
    /// The ConfigMaps that contain it.
    pub held_by: Vec<String>,
    /// Whether its credentials are refused.
    pub is_revoked: bool,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// All authorities, without duplicates.
    pub authorities: Vec<Listed>,
    /// The ignored entries by ConfigMap, with the reasons (NB-16).
    pub faults: Vec<(String, String)>,
}

impl Inventory {
    /// Reads the named ConfigMaps of authorities, and the list of revoked ones.
    pub fn read<'a>(config_maps: impl IntoIterator<Item = (&'a str, &'a Map)>, list: Option<&Map>) -> Self {
        let tombstones = list.map(Tombstones::read).unwrap_or_default();
        let mut found: BTreeMap<String, Listed> = BTreeMap::new();
        let mut faults = Vec::new();
        for (place, config_map) in config_maps {
            let source = Source::read(config_map);
            faults.extend(source.faults.into_iter().map(|fault| (place.to_owned(), fault)));
            for authority in &source.authorities {
                let is_revoked =
                    tombstones.refuses(authority) && !source.acknowledged.contains(&authority.digest());
                let sha256 = hex(&authority.digest());
                let listed = found.entry(sha256.clone()).or_insert_with(|| Listed {
                    common_name: authority.common_name().to_owned(),
                    sha256,
                    not_after: Some(authority.not_after()),
                    held_by: Vec::new(),
                    is_revoked,
                });
                listed.held_by.push(place.to_owned());
                // One ConfigMap that acknowledges it is enough.
                listed.is_revoked &= is_revoked;
            }
        }
        let gone = list.and_then(|list| list.get("data")).and_then(Value::as_object);
        for (name, value) in gone.into_iter().flatten() {
            let Some(certificate) = digest(name) else { continue };
            let sha256 = hex(&certificate);
            let mut noted = value.as_str().unwrap_or_default().splitn(3, ' ').skip(1);
            let end = noted.next().and_then(|end| Instant::parse(end).ok());
            let end = end.and_then(|end| u64::try_from(end.seconds).ok()).map(Duration::from_secs);
            found.entry(sha256.clone()).or_insert_with(|| Listed {
                common_name: noted.next().unwrap_or_default().to_owned(),
                sha256,
                not_after: end.and_then(|end| SystemTime::UNIX_EPOCH.checked_add(end)),
                held_by: Vec::new(),
                is_revoked: true,
            });
        }
        Self { authorities: found.into_values().collect(), faults }
    }
}
