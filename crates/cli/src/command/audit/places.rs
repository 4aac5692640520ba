//! Finds the files and lines of the evidence (AU-71). The files are read once more, and only objects that a finding names are looked
//! into.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use portcullis_policy::audit::findings::Finding;
use portcullis_server::state::{self, line_of};
use serde::Deserialize;

use crate::failure::Failure;

/// The metadata of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    namespace: Option<String>,
    name: Option<String>,
}

/// Where a field of an object is: its file and line.
type Places = BTreeMap<(String, String), (String, usize)>;

/// Adds file and line to the evidence of findings.
///
/// # Errors
/// A file cannot be read any more.
pub(super) fn locate<'f>(
    paths: &[PathBuf],
    findings: impl Iterator<Item = &'f mut Finding>,
) -> Result<(), Failure> {
    let mut findings: Vec<&mut Finding> = findings.collect();
    let mut wanted = BTreeMap::<String, BTreeSet<String>>::new();
    for evidence in findings.iter().flat_map(|finding| &finding.evidence) {
        let pointer = evidence.pointer.clone().unwrap_or_default();
        wanted.entry(evidence.object.clone()).or_default().insert(pointer);
    }
    let places = find(paths, &wanted)?;
    for evidence in findings.iter_mut().flat_map(|finding| &mut finding.evidence) {
        let key = (evidence.object.clone(), evidence.pointer.clone().unwrap_or_default());
        if let Some((file, line)) = places.get(&key) {
            evidence.file = Some(file.clone());
            evidence.line = Some(*line);
        }
    }
    Ok(())
}

fn find(paths: &[PathBuf], wanted: &BTreeMap<String, BTreeSet<String>>) -> Result<Places, Failure> {
    let kinds: BTreeSet<&str> = wanted.keys().filter_map(|object| object.split('/').next()).collect();
    let mut places = Places::new();
    state::documents(paths, &mut |document| {
        let kind = document.kind.to_lowercase();
        if !kinds.contains(kind.as_str()) {
            return Ok(());
        }
        let named: Named = serde_json::from_str(document.json).unwrap_or_default();
        let name = named.metadata.name.unwrap_or_default();
        let object = match named.metadata.namespace.filter(|namespace| !namespace.is_empty()) {
            None => format!("{kind}/{name}"),
            Some(namespace) => format!("{kind}/{namespace}/{name}"),
        };
        for pointer in wanted.get(&object).into_iter().flatten() {
            let place = (document.path.display().to_string(), line_of(&document, pointer));
            places.entry((object.clone(), pointer.clone())).or_insert(place);
        }
        Ok(())
    })
    .map_err(Failure::input)?;
    Ok(places)
}
