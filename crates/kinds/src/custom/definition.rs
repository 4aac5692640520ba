//! A definition, as the table of kinds holds it.

use std::collections::HashSet;
use std::sync::Arc;

use portcullis_apimachinery::field_error::FieldErrors;

use super::names::Names;
use super::prune::prune;
use super::rules::RuleCompiler;
use super::version::Version;
use crate::Map;
use crate::fields::Members;
use crate::meta;

/// The condition of a definition whose kind is served.
const ESTABLISHED: &str = "Established";
/// The condition of a definition whose names are not taken.
const NAMES_ACCEPTED: &str = "NamesAccepted";

/// A definition.
#[derive(Debug)]
pub struct Definition {
    /// The name: `crontabs.stable.example.com`.
    pub name: Box<str>,
    /// The group.
    pub group: Box<str>,
    /// The plural name.
    pub plural: Box<str>,
    /// The kind.
    pub kind: Box<str>,
    /// The other names.
    pub names: Names,
    /// Whether objects live in namespaces.
    pub is_namespaced: bool,
    /// Whether requests are answered: all its names are its own, or were once.
    pub is_served: bool,
    /// Whether it is being deleted, and its objects with it.
    pub is_terminating: bool,
    /// The revision at which it was written.
    pub revision: u64,
    /// The versions.
    versions: Arc<Versions>,
}

/// The versions, compiled from `spec`. Kept when only metadata or status changes, because compiling takes long.
#[derive(Debug)]
struct Versions {
    versions: Box<[Version]>,
    /// The specification that they were made from, to see whether it changed.
    text: Box<str>,
    /// The revision at which the specification came into force.
    since: u64,
}

impl Definition {
    /// Reads a stored definition. `before` is what it was: its parts are used again if the specification has not changed.
    /// `revision` is that of the change. Takes long: not for a thread that serves requests.
    ///
    /// # Errors
    /// Its rules cannot be compiled.
    pub fn read(
        object: &Map,
        before: Option<&Self>,
        revision: u64,
        compiler: &dyn RuleCompiler,
    ) -> Result<Self, FieldErrors> {
        let spec = object.object("spec");
        let text = serde_json::to_string(spec).unwrap_or_default();
        let versions = match before.filter(|before| *before.versions.text == *text) {
            Some(before) => Arc::clone(&before.versions),
            None => {
                let versions = spec.objects("versions").map(|version| Version::read(version, compiler));
                let versions = versions.collect::<Result<Box<[Version]>, FieldErrors>>()?;
                Arc::new(Versions { versions, text: text.into(), since: revision })
            }
        };
        let holds = |name: &str| {
            let mut conditions = object.object("status").objects("conditions");
            conditions.any(|condition| condition.text("type") == name && condition.text("status") == "True")
        };
        let accepted = object.object("status").object("acceptedNames");
        let names = spec.object("names");
        // Names that another kind has are not shown.
        let shown = match holds(NAMES_ACCEPTED) || accepted.text("plural").is_empty() {
            true => names,
            false => accepted,
        };
        let list = |list: &str| shown.texts(list).map(str::to_owned).collect();
        Ok(Self {
            name: meta::name(object).into(),
            group: spec.text("group").into(),
            plural: names.text("plural").into(),
            kind: names.text("kind").into(),
            names: Names {
                singular: shown.text("singular").to_owned(),
                list_kind: names.text("listKind").to_owned(),
                short_names: list("shortNames"),
                categories: list("categories"),
            },
            is_namespaced: spec.text("scope") == "Namespaced",
            is_served: holds(ESTABLISHED) || holds(NAMES_ACCEPTED),
            is_terminating: meta::is_terminating(object),
            revision,
            versions,
        })
    }

    /// The versions.
    pub fn versions(&self) -> &[Version] {
        &self.versions.versions
    }

    /// A version, by its name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions().iter().find(|version| *version.name == *name)
    }

    /// The version in which objects are stored.
    pub fn storage(&self) -> Option<&Version> {
        self.versions().iter().find(|version| version.is_storage)
    }

    /// The version that an `apiVersion` names; nothing if it is none of this kind.
    pub fn version_at(&self, api_version: &str) -> Option<&Version> {
        let (group, version) = api_version.split_once('/')?;
        self.version(version).filter(|_| *self.group == *group)
    }

    /// Sets the version of an object, and drops what the version does not know.
    pub fn convert(&self, mut object: Map, version: &Version) -> Map {
        object.insert("apiVersion".to_owned(), format!("{}/{}", self.group, version.name).into());
        prune(&mut object, &version.schema);
        object
    }

    /// The revision at which the specification came into force.
    pub fn since(&self) -> u64 {
        self.versions.since
    }

    /// Whether two versions have the same name. A validated definition has none.
    pub fn has_versions_twice(&self) -> bool {
        let mut seen = HashSet::new();
        !self.versions().iter().all(|version| seen.insert(&version.name))
    }
}
