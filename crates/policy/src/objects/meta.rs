//! The parts of object metadata that decisions read.

use serde::Deserialize;

use super::decode::{List, StringMap, Text, or_default};

/// The annotation that makes a pod a mirror pod, whatever its value (MP-1).
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Object metadata. `managedFields` and everything else unnamed is skipped while parsing.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata<'a> {
    /// The object's name.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// The prefix for a generated name.
    #[serde(borrow)]
    pub generate_name: Text<'a>,
    /// The namespace, empty for cluster-scoped objects.
    #[serde(borrow)]
    pub namespace: Text<'a>,
    /// The unique id.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// The labels.
    #[serde(borrow)]
    pub labels: StringMap<'a>,
    /// The annotations.
    #[serde(borrow)]
    pub annotations: StringMap<'a>,
    /// Who owns the object.
    #[serde(borrow)]
    pub owner_references: List<OwnerReference<'a>>,
}

/// One owner of an object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference<'a> {
    /// The owner's API version.
    #[serde(borrow)]
    pub api_version: Text<'a>,
    /// The owner's kind.
    #[serde(borrow)]
    pub kind: Text<'a>,
    /// The owner's name.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// The owner's unique id.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Whether the owner manages the object; absent differs from false.
    pub controller: Option<bool>,
    /// Whether the owner waits for the object when deleted; absent differs from false.
    pub block_owner_deletion: Option<bool>,
}

/// A reference by name within the referrer's namespace.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct LocalReference<'a> {
    /// The name of the object referred to.
    #[serde(borrow)]
    pub name: Text<'a>,
}

/// A reference by namespace and name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct NamespacedReference<'a> {
    /// The namespace of the object referred to.
    #[serde(borrow)]
    pub namespace: Text<'a>,
    /// The name of the object referred to.
    #[serde(borrow)]
    pub name: Text<'a>,
}

/// An object of which only metadata is read.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct MetadataOnly<'a> {
    /// The metadata.
    #[serde(borrow, deserialize_with = "or_default")]
    pub metadata: Metadata<'a>,
}
