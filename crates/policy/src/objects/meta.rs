//! The object metadata that decisions read.

use serde::Deserialize;

use super::decode::{List, StringMap, Text, or_default};

/// Object metadata. `managedFields` and all other fields are skipped while parsing.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Metadata<'a> {
    /// The object's name.
    pub name: Text<'a>,
    /// The prefix for a generated name.
    pub generate_name: Text<'a>,
    /// The namespace, empty for cluster-scoped objects.
    pub namespace: Text<'a>,
    /// The unique id.
    pub uid: Text<'a>,
    /// The labels.
    pub labels: StringMap<'a>,
    /// The annotations.
    pub annotations: StringMap<'a>,
    /// The owners of the object.
    pub owner_references: List<OwnerReference<'a>>,
}

/// One owner of an object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct OwnerReference<'a> {
    /// The owner's API version.
    pub api_version: Text<'a>,
    /// The owner's kind.
    pub kind: Text<'a>,
    /// The owner's name.
    pub name: Text<'a>,
    /// The owner's unique id.
    pub uid: Text<'a>,
    /// Whether the owner manages the object; absent differs from false.
    pub controller: Option<bool>,
    /// Whether deletion of the owner waits for the object; absent differs from false.
    pub block_owner_deletion: Option<bool>,
}

/// A reference by name within the referrer's namespace.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct LocalReference<'a> {
    /// The name of the object referred to.
    pub name: Text<'a>,
}

/// A reference by namespace and name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct NamespacedReference<'a> {
    /// The namespace of the object referred to.
    pub namespace: Text<'a>,
    /// The name of the object referred to.
    pub name: Text<'a>,
}

/// An object of which only the metadata is read.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct MetadataOnly<'a> {
    /// The metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata<'a>,
}

/// An object of which only the metadata and the spec are read.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a, S: Default + Deserialize<'de>"))]
pub struct MetadataAndSpec<'a, S> {
    /// The metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata<'a>,
    /// The spec.
    #[serde(deserialize_with = "or_default")]
    pub spec: S,
}
