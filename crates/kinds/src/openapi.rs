//! The OpenAPI v3 documents by which kubectl validates, explains and merges: one for each group and version, made of
//! the table of kinds and the tables of fields.
//!
//! They tell what a client needs; descriptions and values' limits are not among it.

mod paths;
mod schemas;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Map;
use crate::resource::Resource;

/// The OpenAPI documents of a server.
#[derive(Clone, Debug)]
pub struct Documents {
    /// The document of `/openapi/v3`.
    index: String,
    /// What follows `/openapi/v3/` in paths, and the document there.
    documents: BTreeMap<String, String>,
}

impl Documents {
    /// Writes the documents for the kinds that a server has.
    pub fn of<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Self {
        let mut groups: BTreeMap<String, Vec<&Resource>> = BTreeMap::new();
        for resource in resources {
            groups.entry(root(resource)).or_default().push(resource);
        }
        let documents: BTreeMap<String, String> =
            groups.into_iter().map(|(root, resources)| (root, document(&resources).to_string())).collect();
        let entry = |(root, document): (&String, &String)| {
            let url = format!("/openapi/v3/{root}?hash={:016X}", hash(document.as_bytes()));
            (root.clone(), json!({"serverRelativeURL": url}))
        };
        let paths: Map = documents.iter().map(entry).collect();
        Self { index: json!({"paths": paths}).to_string(), documents }
    }

    /// The document of `/openapi/v3`, in JSON: where the others are. The hash in their addresses changes with them.
    pub fn index(&self) -> &str {
        &self.index
    }

    /// The document of a group and version, in JSON. `root` is what follows `/openapi/v3/`: `api/v1` or
    /// `apis/rbac.authorization.k8s.io/v1`.
    pub fn document(&self, root: &str) -> Option<&str> {
        self.documents.get(root).map(String::as_str)
    }
}

/// Where the group and version of a kind lie: `api/v1`, `apis/apps/v1`.
fn root(resource: &Resource) -> String {
    let prefix = if resource.group.is_empty() { "api" } else { "apis" };
    format!("{prefix}/{}", resource.api_version())
}

fn document(resources: &[&Resource]) -> Value {
    let mut schemas = schemas::Schemas::default();
    let mut paths = Map::new();
    for resource in resources {
        paths::add(resource, &mut schemas, &mut paths);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas.found},
    })
}

/// A short name for a document (FNV-1a). No secret depends on it.
fn hash(document: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    document.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
