//! The forms in which the objects of a kind lie in etcd: JSON and protobuf, in each version that the server knows
//! (ET-11).

use std::fmt::Display;

use kinds::decode::Document;
use kinds::resource::{Conversion, Resource};
use kinds::resources::definitions::{DEFINITIONS, V1BETA1, from_v1beta1};
use kinds::schema::Type;
use kinds::schema::custom::CUSTOM;
use kinds::{Kinds, Map, decode, protobuf};
use portcullis_apimachinery::quote::quoted;
use portcullis_store::Revision;
use portcullis_store::etcd::Opened;

use crate::registry::{meta, storage};

/// Versions that Kubernetes stored or stores, and that have the same fields and the same defaults as the version here:
/// the `apiVersion` and the kind. kube-apiserver 1.36 stores the first two.
const ALIKE: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicyBinding"),
    ("coordination.k8s.io/v1beta1", "Lease"),
];

/// The problem with a value and its solution, as a sentence that begins with "the value of KEY".
pub(super) type Problem = String;

/// A version in which objects can be stored, with what makes it the stored one.
#[derive(Debug)]
struct Form {
    api_version: String,
    schema: &'static Type,
    /// How the object becomes one of the stored version, for another one.
    change: Option<Change>,
}

/// How an object of another version becomes one of the stored version.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// As between the rows of the table.
    Row(Conversion),
    /// As a definition of a custom kind.
    Definition,
}

/// The versions of one kind.
#[derive(Debug)]
pub(super) struct Forms {
    row: &'static Resource,
    /// The stored version first.
    forms: Vec<Form>,
}

impl Forms {
    /// The forms of a kind, with all versions that these kinds have of it.
    pub(super) fn of(row: &'static Resource, kinds: &Kinds) -> Self {
        let form =
            |api_version: &str, schema, change| Form { api_version: api_version.to_owned(), schema, change };
        let own = form(&row.api_version(), row.schema, None);
        let is_alike = |version: &str, kind: &str| {
            kind == row.kind && version.rsplit_once('/').is_some_and(|(group, _)| group == row.group)
        };
        let alike = ALIKE.iter().filter(|(version, kind)| is_alike(version, kind));
        let others = kinds.built_in_rows().filter_map(|other| {
            let conversion = other.version_of.or(other.stored_as).filter(|to| *to.row == *row)?;
            Some(form(&other.api_version(), other.schema, Some(Change::Row(conversion))))
        });
        let alike = alike.map(|(version, _)| form(version, row.schema, None));
        // Nothing but the metadata is decoded before it is converted.
        // DIVERGES: kube-apiserver writes definitions in this version. Here they are written as clients see them.
        let beta = (*row == DEFINITIONS).then(|| form(V1BETA1, &CUSTOM, Some(Change::Definition)));
        Self { row, forms: std::iter::once(own).chain(others).chain(alike).chain(beta).collect() }
    }

    /// The kind, in its stored version.
    pub(super) fn row(&self) -> &'static Resource {
        self.row
    }

    /// Reads a value that is not encrypted, and returns the object as the store keeps it.
    ///
    /// # Errors
    /// It is not an object of this kind in a known version, or not the one that `rest` of its key names.
    ///
    /// DIVERGES: kube-apiserver also reads YAML and older versions of more kinds, takes a value without a kind for one of
    /// the key's kind, and shows an object whose name or namespace is not that of its key. A value that it cannot read
    /// stops all watches of the kind.
    pub(super) fn read(&self, plain: &[u8], rest: &str, modified: Revision) -> Result<Opened, Problem> {
        let is_protobuf = plain.starts_with(protobuf::MAGIC);
        let (mut object, is_current) = match is_protobuf {
            true => self.protobuf(plain)?,
            false => self.json(plain)?,
        };
        // As kube-apiserver: an earlier version of it did not know the fields of today.
        (self.row.default)(&mut object);
        let (namespace, name) = match self.row.is_namespaced {
            true => rest.split_once('/').unwrap_or_default(),
            false => ("", rest),
        };
        check_place(&object, namespace, name)?;
        let value = storage::unstored(self.row, &object, modified)
            .map_err(|status| format!("cannot be served: {}", status.message()))?;
        Ok(Opened { value, is_stale: is_protobuf || !is_current })
    }

    /// The first field of a JSON document that the kind does not have, or that is there twice; none if it cannot be read.
    pub(super) fn unknown_field(&self, document: &[u8]) -> Option<String> {
        let document = Document::parse(document).ok()?;
        let form = self.form(document.text("apiVersion").ok()?, document.text("kind").ok()?).ok()?;
        document.decode(form.schema).ok()?.problems.first().map(ToString::to_string)
    }

    /// The object, and whether its version is the stored one.
    fn json(&self, plain: &[u8]) -> Result<(Map, bool), Problem> {
        if plain.is_empty() {
            return Err(format!("is empty, not a {}", self.described()));
        }
        let unreadable = |error: &dyn Display| format!("is not a {} in JSON: {error}", self.described());
        let document = Document::parse(plain).map_err(|error| unreadable(&error))?;
        let text = |name| document.text(name).map_err(|error| unreadable(&error));
        let form = self.form(text("apiVersion")?, text("kind")?)?;
        let decoded = document.decode(form.schema).map_err(|error| unreadable(&error))?;
        self.current(decoded.object, form)
    }

    /// The object, and whether its version is the stored one.
    fn protobuf(&self, plain: &[u8]) -> Result<(Map, bool), Problem> {
        let unreadable = |error: &dyn Display| format!("is not a {} in protobuf: {error}", self.described());
        let envelope = protobuf::envelope(plain).map_err(|error| unreadable(&error))?;
        let form = self.form(envelope.api_version, envelope.kind)?;
        if !form.schema.has_protobuf() {
            return Err(unreadable(&"this kind has no protobuf form"));
        }
        let object = protobuf::message(envelope.raw, form.schema).map_err(|error| unreadable(&error))?;
        self.current(object, form)
    }

    /// The form with this version and kind.
    fn form(&self, api_version: &str, kind: &str) -> Result<&Form, Problem> {
        if kind != self.row.kind {
            return Err(format!("has the kind {}, not {}", quoted(kind), self.row.kind));
        }
        let known = || self.forms.iter().map(|form| form.api_version.as_str()).collect::<Vec<_>>().join(", ");
        self.forms.iter().find(|form| form.api_version == api_version).ok_or_else(|| {
            format!(
                "has the apiVersion {}, in which this server cannot read a {kind}: let kube-apiserver store it again, in \
                 one of {}",
                quoted(api_version),
                known()
            )
        })
    }

    /// Converts an object of a form to the stored version. Also returns whether it was in this version already.
    fn current(&self, object: Map, form: &Form) -> Result<(Map, bool), Problem> {
        let is_current = self.forms.first().is_some_and(|own| own.api_version == form.api_version);
        let failed = |error: &dyn Display| format!("cannot be converted from {}: {error}", form.api_version);
        let converted = match form.change {
            None => return Ok((object, is_current)),
            Some(Change::Row(conversion)) => (conversion.to)(object),
            Some(Change::Definition) => from_v1beta1(object).map_err(|error| failed(&error))?,
        };
        let decoded = decode::value(converted.into(), self.row.schema).map_err(|error| failed(&error))?;
        Ok((decoded.object, is_current))
    }

    /// `Pod of v1`.
    fn described(&self) -> String {
        format!("{} of {}", self.row.kind, self.row.api_version())
    }
}

/// Checks that the object is the one that its key names. Else an object could be read, listed or authorized under a name that is
/// not its own.
///
/// # Errors
/// It is another one.
pub(super) fn check_place(object: &Map, namespace: &str, name: &str) -> Result<(), Problem> {
    for (field, of_key) in [("name", name), ("namespace", namespace)] {
        let found = meta::text(object, field);
        if found != of_key {
            let (found, of_key) = (quoted(found), quoted(of_key));
            return Err(format!("has the metadata.{field} {found}, but its key says {of_key}"));
        }
    }
    Ok(())
}
