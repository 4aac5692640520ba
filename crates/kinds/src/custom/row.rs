//! The row of a version of a custom kind. A row lives as long as the program, because requests, watches and metrics refer
//! to it; what its definition says is exchanged when the definition changes, and taken away when it is gone.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use serde_json::Value;

use super::definition::Definition;
use super::field_path::FieldPath;
use super::names::Names;
use super::version::Version;
use super::{defaults, embedded, prune};
use crate::Map;
use crate::decode::{DecodeError, Problem};
use crate::fields::{Members, begin_generation, raise_generation};
use crate::resource::{
    Behaviour, Custom, CustomStrategy, MetadataChecks, Part, Resource, STATUS_VERBS, Subresource,
};
use crate::resources::workloads::scale::{SCALES, document};
use crate::schema::custom::CUSTOM;
use crate::table::Row;

/// The verbs, in the order in which Kubernetes lists those of custom kinds.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The names that identify a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity<'n> {
    pub(super) group: &'n str,
    pub(super) version: &'n str,
    pub(super) plural: &'n str,
    pub(super) kind: &'n str,
    pub(super) is_namespaced: bool,
}

impl Identity<'_> {
    /// About how many bytes a row of these names takes for ever.
    pub(super) fn size(&self) -> usize {
        let names = [self.group, self.version, self.plural, self.kind];
        let names: usize = names.iter().map(|name| name.len()).sum();
        size_of::<CustomRow>() + size_of::<Part>() + names * 3
    }

    /// The same names, for ever.
    fn leaked(&self) -> Identity<'static> {
        let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        Identity {
            group: leak(self.group),
            version: leak(self.version),
            plural: leak(self.plural),
            kind: leak(self.kind),
            is_namespaced: self.is_namespaced,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct CustomRow {
    pub(super) identity: Identity<'static>,
    /// The definition in force; none if it was deleted.
    definition: ArcSwapOption<Definition>,
    /// The row of the version in which objects are stored.
    storage: ArcSwapOption<&'static Self>,
    row: OnceLock<Resource>,
    /// The status, and the scale.
    subresources: OnceLock<[Subresource; 2]>,
    /// The start of stored bytes.
    head: Box<str>,
}

impl CustomRow {
    /// Makes a row, which is never given back.
    pub(super) fn leak(identity: Identity<'_>) -> &'static Self {
        let identity = identity.leaked();
        let Identity { group, version, kind, .. } = identity;
        let head = format!(r#"{{"kind":"{kind}","apiVersion":"{group}/{version}","metadata":"#);
        let row: &'static Self = Box::leak(Box::new(Self {
            identity,
            definition: ArcSwapOption::empty(),
            storage: ArcSwapOption::empty(),
            row: OnceLock::new(),
            subresources: OnceLock::new(),
            head: head.into(),
        }));
        let part = Part { row: &SCALES, show: |_| Map::new(), put: |_, _| Ok(()), custom: Some(row) };
        let part: &'static Part = Box::leak(Box::new(part));
        let scale = Subresource {
            name: "scale",
            kind: "Scale",
            group: Some("autoscaling"),
            version: Some("v1"),
            verbs: STATUS_VERBS,
            behaviour: Behaviour::Part(part),
        };
        row.subresources.get_or_init(|| [Subresource::status(kind), scale]);
        row
    }

    /// The row in the table of kinds.
    pub(super) fn resource(&'static self) -> &'static Resource {
        let Identity { group, version, plural, kind, is_namespaced } = self.identity;
        self.row.get_or_init(|| Resource {
            group,
            version,
            kind,
            plural,
            is_namespaced,
            verbs: VERBS,
            subresources: self.subresources.get().map_or(&[], |both| both.as_slice()),
            schema: &CUSTOM,
            metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: false },
            selects_namespace: is_namespaced,
            status_resets: &["metadata", "spec"],
            updates_unconditionally: false,
            custom: Some(self),
            ..Resource::USUAL
        })
    }

    /// Exchanges what the definition says.
    pub(super) fn set(&self, definition: Option<Arc<Definition>>, storage: &'static Self) {
        self.storage.store(Some(Arc::new(storage)));
        self.definition.store(definition);
    }

    /// Acts on this version as the definition has it now; nothing if there is none.
    fn with<R>(&self, act: impl FnOnce(&Definition, &Version) -> R) -> Option<R> {
        let definition = self.definition.load();
        let definition = definition.as_deref()?;
        Some(act(definition, definition.version(self.identity.version)?))
    }

    /// `stable.example.com/v1`.
    fn api_version(&self) -> String {
        format!("{}/{}", self.identity.group, self.identity.version)
    }

    /// Checks kind and version, which the bodies of custom objects can get wrong.
    fn type_errors(&self, object: &Map) -> FieldErrors {
        let wanted = [("kind", self.identity.kind.to_owned()), ("apiVersion", self.api_version())];
        let wrong = wanted.into_iter().filter(|(name, wanted)| object.text(name) != wanted);
        wrong
            .map(|(name, wanted)| {
                FieldError::invalid(name, format!("{:?}", object.text(name)), format!("must be {wanted}"))
            })
            .collect()
    }
}

impl Custom for CustomRow {
    fn storage(&self) -> &'static Resource {
        let storage = self.storage.load();
        match storage.as_deref() {
            Some(storage) => storage.resource(),
            // Rows are made together with what they store.
            None => &SCALES,
        }
    }

    fn subresources(&self) -> &'static [Subresource] {
        let has = self.with(|_, version| (version.has_status, version.scale.is_some())).unwrap_or_default();
        let both = self.row.get().map_or(&[][..], |row| row.subresources);
        match has {
            (true, true) => both,
            (true, false) => both.get(..1).unwrap_or_default(),
            (false, true) => both.get(1..).unwrap_or_default(),
            (false, false) => &[],
        }
    }
}

impl CustomStrategy for CustomRow {
    fn names(&self) -> Names {
        self.with(|definition, _| definition.names.clone()).unwrap_or_default()
    }

    fn live_definition(&self) -> Option<Arc<Definition>> {
        self.definition.load_full()
    }

    fn definition(&self) -> (String, u64) {
        let revision = self.definition.load().as_deref().map_or(u64::MAX, |definition| definition.revision);
        (format!("{}.{}", self.identity.plural, self.identity.group), revision)
    }

    fn is_costly(&self) -> bool {
        self.with(|_, version| version.is_costly).unwrap_or_default()
    }

    fn creation_fault(&self) -> Option<String> {
        let fault = self.with(|definition, _| {
            let why = "create not allowed while custom resource definition is terminating";
            definition.is_terminating.then(|| why.to_owned())
        });
        fault.unwrap_or_else(|| Some("the custom resource definition is gone".to_owned()))
    }

    fn warning(&self) -> Option<String> {
        let Identity { group, version, kind, .. } = self.identity;
        self.with(|definition, this| {
            let given = this.warning.as_deref()?;
            if !given.is_empty() {
                return Some(given.to_owned());
            }
            let better =
                definition.versions().iter().filter(|other| other.is_served && other.warning.is_none());
            let newest = better.min_by_key(|other| super::version::rank(&other.name));
            let instead = newest.map(|newest| format!("; use {group}/{} {kind}", newest.name));
            Some(format!("{group}/{version} {kind} is deprecated{}", instead.unwrap_or_default()))
        })
        .flatten()
    }

    fn complete(&self, object: &mut Map, problems: Option<&mut Vec<Problem>>) -> Result<(), DecodeError> {
        self.with(|_, version| {
            let mut found = Vec::new();
            embedded::decode_metadata(object, &version.schema, &mut found)?;
            match problems {
                Some(problems) => {
                    let unknown = prune::prune_telling(object, &version.schema);
                    found.extend(unknown.into_iter().map(Problem::Unknown));
                    problems.append(&mut found);
                }
                None => prune::prune(object, &version.schema),
            }
            defaults::default(object, &version.schema);
            Ok(())
        })
        .unwrap_or(Ok(()))
    }

    fn stored(&self, object: Map) -> Map {
        let definition = self.definition.load();
        match definition.as_deref().and_then(|definition| Some((definition, definition.storage()?))) {
            Some((definition, version)) => {
                let mut stored = definition.convert(object, version);
                // What this version cannot say is as if nobody had said it.
                if *version.name != *self.identity.version {
                    defaults::default(&mut stored, &version.schema);
                }
                stored
            }
            None => object,
        }
    }

    fn is_as_stored(&self, bytes: &[u8], revision: u64) -> bool {
        bytes.starts_with(self.head.as_bytes())
            && self.with(|definition, _| definition.since() < revision).unwrap_or(true)
    }

    fn shown(&self, mut stored: Map) -> Result<Map, String> {
        let shown = self.with(|definition, version| {
            if definition.version_at(stored.text("apiVersion")).is_none() {
                let found = stored.text("apiVersion");
                return Err(format!(
                    "request to convert CR from an invalid group/version: {found}: the object must be stored again in a \
                     version that the definition has"
                ));
            }
            // As it is read: pruned and defaulted as the stored version, then shown as this one.
            if let Some(storage) = definition.storage() {
                prune::prune(&mut stored, &storage.schema);
                defaults::default(&mut stored, &storage.schema);
            }
            Ok(definition.convert(std::mem::take(&mut stored), version))
        });
        shown.unwrap_or(Ok(stored))
    }

    fn prepare_create(&self, object: &mut Map) {
        if self.with(|_, version| version.has_status).unwrap_or_default() {
            object.remove("status");
        }
        begin_generation(object);
    }

    fn prepare_update(&self, object: &mut Map, old: &Map, is_status: bool) {
        if is_status {
            // Only the status is changed.
            let status = object.remove("status");
            let managed = object.metadata().get("managedFields").cloned();
            let revision = object.metadata().get("resourceVersion").cloned();
            object.clone_from(old);
            for (name, value) in [("managedFields", managed), ("resourceVersion", revision)] {
                if let (Some(metadata), Some(value)) = (object.object_mut("metadata"), value) {
                    metadata.insert(name.to_owned(), value);
                }
            }
            object.remove("status");
            object.extend(status.map(|status| ("status".to_owned(), status)));
            return;
        }
        let has_status = self.with(|_, version| version.has_status).unwrap_or_default();
        if has_status {
            object.copy("status", old);
        }
        let matters = |name: &str| name != "metadata" && !(has_status && name == "status");
        let part = |object: &Map| -> Vec<(String, Value)> {
            let kept = object.iter().filter(|(name, _)| matters(name));
            kept.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        let has_changed = part(object) != part(old);
        raise_generation(object, old, has_changed);
    }

    fn validate(&self, object: &Map, old: Option<&Map>, is_status: bool) -> FieldErrors {
        let wrong_type = self.type_errors(object);
        if !wrong_type.is_empty() {
            return wrong_type;
        }
        let errors = self.with(|_, version| version.validate(object, old, is_status));
        errors.unwrap_or_else(|| {
            let why = "the custom resource definition is gone: nothing can be stored";
            [FieldError::forbidden("apiVersion", why)].into()
        })
    }

    fn selectable(&self) -> Vec<FieldPath> {
        self.with(|_, version| version.selectable.to_vec()).unwrap_or_default()
    }

    fn columns(&self) -> Vec<Value> {
        self.with(|_, version| version.columns.shown()).unwrap_or_default()
    }

    fn row(&self, object: &Map, now: i64) -> Row {
        self.with(|_, version| version.columns.row(object, now)).unwrap_or_default()
    }

    fn scale(&self, object: &Map) -> Result<Map, String> {
        let counts = self.with(|_, version| version.scale.as_ref().map(|scale| scale.counts(object)));
        let (wanted, there, selector) = counts.flatten().ok_or("the kind has no scale")??;
        Ok(document(object, wanted, there, selector))
    }

    fn set_scale(&self, object: &mut Map, scale: &Map) -> Result<(), FieldErrors> {
        let count = scale.object("spec").number("replicas");
        let set = self.with(|_, version| version.scale.as_ref().map(|paths| paths.set(object, count)));
        set.flatten().unwrap_or(Ok(()))
    }
}
