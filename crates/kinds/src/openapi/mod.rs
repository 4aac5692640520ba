//! The OpenAPI v3 documents, which kubectl uses to validate, explain and merge: one for each group and version,
//! generated from the table of kinds and the schemas.
//!
//! They contain what clients need: most defaults are omitted.

mod descriptions;
mod operations;
mod paths;
mod schemas;
mod swagger;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Map;
use crate::discovery::current_reviews;
use crate::kinds::Kinds;
use crate::resource::Resource;

pub use swagger::Swagger;

use descriptions::Descriptions;
use paths::root;
use schemas::Schemas;

/// The OpenAPI documents of a server.
#[derive(Clone, Debug)]
pub struct Documents {
    /// The URLs of the documents, as the document of `/openapi/v3` has them.
    paths: Map,
    /// The documents, by their path after `/openapi/v3/`.
    documents: BTreeMap<String, String>,
}

impl Documents {
    /// Generates the documents for the kinds of a server.
    pub fn of(kinds: &Kinds) -> Self {
        let mut groups: BTreeMap<String, Vec<&Resource>> = BTreeMap::new();
        for resource in kinds.built_in_rows().filter(|row| row.action.is_none()) {
            groups.entry(root(resource)).or_default().push(resource);
        }
        for review in current_reviews() {
            groups.entry(format!("apis/{}/{}", review.group, review.version)).or_default();
        }
        let descriptions = Descriptions::read();
        let documents: BTreeMap<String, String> = groups
            .into_iter()
            .map(|(root, resources)| {
                let document = document(&root, &resources, &descriptions).to_string();
                (root, document)
            })
            .collect();
        let entry = |(root, document): (&String, &String)| {
            let url = format!("/openapi/v3/{root}?hash={:016X}", hash(document.as_bytes()));
            (root.clone(), json!({"serverRelativeURL": url}))
        };
        let paths = documents.iter().map(entry).collect();
        Self { paths, documents }
    }

    /// The document of `/openapi/v3`, in JSON, with the URLs of the others. The hash in a URL changes with the
    /// document. `custom` are the documents of custom kinds, each with a text that changes with it.
    pub fn index(&self, custom: impl IntoIterator<Item = (String, String)>) -> String {
        let mut paths = self.paths.clone();
        for (root, state) in custom {
            let url = format!("/openapi/v3/{root}?hash={:016X}", hash(state.as_bytes()));
            paths.insert(root, json!({"serverRelativeURL": url}));
        }
        json!({"paths": paths}).to_string()
    }

    /// Takes the documents out, by their path after `/openapi/v3/`. The document of `/openapi/v3` stays.
    pub fn take(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.documents)
    }

    /// The document of a group and version, in JSON. `root` is the path after `/openapi/v3/`: `api/v1` or
    /// `apis/rbac.authorization.k8s.io/v1`.
    pub fn document(&self, root: &str) -> Option<&str> {
        self.documents.get(root).map(String::as_str)
    }
}

/// The document of a group and version of custom kinds, in JSON: each kind with its schema, as its definition has it.
pub fn of_custom(kinds: Vec<(&'static Resource, Map)>) -> String {
    let descriptions = Descriptions::read();
    let mut schemas = Schemas::new(&descriptions);
    let resources: Vec<&Resource> = kinds.iter().map(|(resource, _)| *resource).collect();
    schemas.add_custom(kinds);
    let mut paths = Map::new();
    for resource in resources {
        paths::add(resource, &mut schemas, &mut paths);
    }
    whole(paths, schemas).to_string()
}

fn document(root: &str, resources: &[&Resource], descriptions: &Descriptions) -> Value {
    let mut schemas = Schemas::new(descriptions);
    let mut paths = Map::new();
    for resource in resources {
        paths::add(resource, &mut schemas, &mut paths);
    }
    for review in
        current_reviews().filter(|review| root == format!("apis/{}/{}", review.group, review.version))
    {
        paths::add_review(review, &mut schemas, &mut paths);
    }
    whole(paths, schemas)
}

fn whole(paths: Map, schemas: Schemas<'_>) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas.found},
    })
}

/// A hash of a document (FNV-1a), not for security.
fn hash(document: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    document.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
