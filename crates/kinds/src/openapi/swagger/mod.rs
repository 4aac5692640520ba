//! The document of `/openapi/v2`, for clients that do not know `/openapi/v3`: all kinds in one, in Swagger 2.0. It is made
//! of the same paths and schemas.
//!
//! DIVERGES: it has no paths of discovery and of `/version`, which clients find without it, and none of the deprecated
//! watches.

mod convert;
mod protobuf;

use serde_json::{Value, json};

use super::descriptions::Descriptions;
use super::paths;
use super::schemas::Schemas;
use crate::Map;
use crate::discovery::current_reviews;
use crate::kinds::Kinds;
use crate::resource::Resource;

/// The document in both forms.
#[derive(Clone, Debug)]
pub struct Swagger {
    /// In JSON.
    pub json: Vec<u8>,
    /// As the message `openapi.v2.Document`.
    pub protobuf: Vec<u8>,
}

impl Swagger {
    /// The document of these kinds. `version` is that of the server. `custom` are the custom kinds, each with its
    /// schema, as its definition has it.
    pub fn of(kinds: &Kinds, custom: Vec<(&'static Resource, Map)>, version: &str) -> Self {
        let document = document(kinds, custom, version);
        // Maps with text keys can always be written.
        let json = serde_json::to_vec(&document).unwrap_or_default();
        Self { json, protobuf: protobuf::encode(&document) }
    }
}

fn document(kinds: &Kinds, custom: Vec<(&'static Resource, Map)>, version: &str) -> Map {
    let descriptions = Descriptions::read();
    let mut schemas = Schemas::new(&descriptions);
    let mut paths = Map::new();
    let custom_rows: Vec<&Resource> = custom.iter().map(|(row, _)| *row).collect();
    let built_in = kinds.rows().filter(|row| row.custom.is_none() && row.action.is_none());
    schemas.add_custom(custom);
    for row in built_in.chain(custom_rows) {
        paths::add(row, &mut schemas, &mut paths);
    }
    for review in current_reviews() {
        paths::add_review(review, &mut schemas, &mut paths);
    }
    let paths: Map = paths.into_iter().map(|(path, item)| (path, convert::path(item))).collect();
    let document = json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "definitions": convert::definitions(schemas.found),
        "securityDefinitions": {
            "BearerToken": {
                "description": "A token, after the word `Bearer`.",
                "type": "apiKey",
                "name": "authorization",
                "in": "header",
            },
        },
        "security": [{"BearerToken": []}],
    });
    match document {
        Value::Object(document) => document,
        _ => Map::new(),
    }
}
