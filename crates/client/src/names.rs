//! The names of what a cluster has, for words that people complete, and for types that they ask about.
//!
//! One request for each list, of metadata where that is enough, at any revision that the server has at hand. Nothing is tried
//! again: who waits for a word does not wait long.

use std::collections::HashSet;

use http::Request;
use http::header::{ACCEPT, USER_AGENT};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::call::{CallError, Resource, segment, without_content};
use crate::connect::Connection;
use crate::snapshot::METADATA;

/// Says whose requests these are in the audit log of the server.
const AGENT: &str = concat!("portcullis/", env!("CARGO_PKG_VERSION"), " (names)");
const JSON: &str = "application/json";
/// Discovery in one document, of servers of 1.27 and later.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                         application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// An object, by its names.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Named {
    /// The namespace; empty if it is cluster-scoped.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// A type of objects that the server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The plural name.
    pub plural: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// Whether its objects live in namespaces.
    pub is_namespaced: bool,
    /// The version that the server prefers.
    version: String,
    /// The kind, the singular and the short names.
    other_names: Vec<String>,
}

impl Served {
    /// Whether the type has this name, in any case: its plural, its singular, a short name, or its kind.
    pub fn is_called(&self, name: &str) -> bool {
        let mut names = self.other_names.iter().chain([&self.plural]);
        names.any(|own| !own.is_empty() && own.eq_ignore_ascii_case(name))
    }
}

/// A user or a group that a binding names.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Subject {
    /// `User`, `Group` or `ServiceAccount`.
    pub kind: String,
    /// The name.
    pub name: String,
}

/// The names of all nodes, namespaces or other objects of a resource.
///
/// # Errors
/// See [`CallError`].
pub async fn of(connection: &Connection, resource: &Resource) -> Result<Vec<Named>, CallError> {
    named(connection, &resource.path()).await
}

/// The names of all objects of a type, in a namespace if the type has them there.
///
/// # Errors
/// See [`CallError`].
pub async fn of_served(
    connection: &Connection,
    served: &Served,
    namespace: &str,
) -> Result<Vec<Named>, CallError> {
    let Served { plural, group, version, is_namespaced, .. } = served;
    let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", segment(group)) };
    let within = if *is_namespaced { format!("/namespaces/{}", segment(namespace)) } else { String::new() };
    named(connection, &format!("{root}/{}{within}/{}", segment(version), segment(plural))).await
}

/// The subjects of all bindings.
///
/// # Errors
/// See [`CallError`].
pub async fn subjects(connection: &Connection, bindings: &Resource) -> Result<Vec<Subject>, CallError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Binding {
        subjects: Option<Vec<Subject>>,
    }
    let list: List<Binding> = get(connection, &at_hand(&bindings.path()), JSON).await?;
    Ok(list.items.into_iter().flat_map(|binding| binding.subjects.unwrap_or_default()).collect())
}

/// The types that the server has and lists. A server that is too old for discovery in one document has none here.
///
/// # Errors
/// See [`CallError`].
pub async fn served(connection: &Connection) -> Result<Vec<Served>, CallError> {
    let (core, groups): (List<Group>, List<Group>) =
        tokio::try_join!(get(connection, "/api", DISCOVERY), get(connection, "/apis", DISCOVERY))?;
    let of_group = |group: Group| {
        // The first version is the one that clients should use.
        let mut seen = HashSet::new();
        let mut types = Vec::new();
        for version in group.versions {
            for resource in version.resources {
                if resource.verbs.iter().any(|verb| verb == "list") && seen.insert(resource.resource.clone())
                {
                    let mut other_names = resource.short_names;
                    other_names.extend([resource.singular_resource, resource.response_kind.kind]);
                    types.push(Served {
                        plural: resource.resource,
                        group: group.metadata.name.clone(),
                        is_namespaced: resource.scope == "Namespaced",
                        version: version.version.clone(),
                        other_names,
                    });
                }
            }
        }
        types
    };
    Ok(core.items.into_iter().chain(groups.items).flat_map(of_group).collect())
}

async fn named(connection: &Connection, path: &str) -> Result<Vec<Named>, CallError> {
    #[derive(Deserialize)]
    struct Item {
        metadata: Named,
    }
    let list: List<Item> = get(connection, &at_hand(path), METADATA).await?;
    Ok(list.items.into_iter().map(|item| item.metadata).collect())
}

/// The list at any revision, which servers have in memory.
fn at_hand(path: &str) -> String {
    format!("{path}?resourceVersion=0")
}

async fn get<T: DeserializeOwned>(connection: &Connection, path: &str, accept: &str) -> Result<T, CallError> {
    let request = Request::get(path).header(ACCEPT, accept).header(USER_AGENT, AGENT);
    let text = connection.send(request, path, None).await?;
    serde_json::from_str(&text)
        .map_err(|error| CallError::Answer { path: path.to_owned(), why: without_content(&error) })
}

#[derive(Deserialize)]
struct List<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Named,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<ResourceOfVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ResourceOfVersion {
    resource: String,
    response_kind: ResponseKind,
    scope: String,
    singular_resource: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseKind {
    kind: String,
}
