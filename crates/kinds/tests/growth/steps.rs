//! The steps of a request.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::LazyLock;

use portcullis_apimachinery::field_error::FieldErrors;
use portcullis_kinds::patch::{self, PatchKind};
use portcullis_kinds::resource::{Behaviour, Certificates, Context, OnRequest, Requester, Resource};
use portcullis_kinds::resources::core::services::ServiceRanges;
use portcullis_kinds::{Kinds, Map, decode, meta, protobuf};
use serde_json::Value;

use crate::documents::{Maker, Variant, patch_operations, turn};

/// What the steps of a request work on.
pub(crate) struct Prepared {
    row: &'static Resource,
    text: Vec<u8>,
    decoded: Map,
    /// With defaults, as it is stored.
    stored: Map,
    /// The stored one with its list turned around: another object of the same size.
    turned: Map,
    patch: Vec<u8>,
    operations: Vec<u8>,
    message: Vec<u8>,
    /// Another object of the kind.
    others: [Map; 1],
}

pub(crate) type Step<'a> = (&'static str, Box<dyn Fn() + 'a>);

/// Finds nothing wrong with any certificate.
struct AnyCertificate;

impl Certificates for AnyCertificate {
    fn request_fault(&self, _: &[u8]) -> Option<String> {
        None
    }

    fn certificates_fault(&self, _: &[u8]) -> Option<String> {
        None
    }
}

static NOTHING: LazyLock<Map> = LazyLock::new(Map::new);
static RANGES: LazyLock<ServiceRanges> = LazyLock::new(ServiceRanges::default);
static EXTRA: BTreeMap<String, Vec<String>> = BTreeMap::new();
static FAULTS: BTreeMap<String, String> = BTreeMap::new();

impl Prepared {
    /// The steps of the schema need `with_schema`. None: the document has more values than one may have.
    pub(crate) fn new(
        row: &'static Resource,
        place: &[&'static str],
        variant: Variant,
        count: usize,
        with_schema: bool,
    ) -> Option<Self> {
        let maker = Maker { count, variant, is_wide: place.len() <= 2 };
        let text = serde_json::to_vec(&maker.document(row, place)).unwrap();
        let decoded = decode::json(&text, row.schema).ok()?.object;
        let mut stored = decoded.clone();
        (row.default)(&mut stored);
        let mut turned = Value::Object(stored.clone());
        turn(&mut turned, place);
        let Value::Object(turned) = turned else { panic!("no object") };
        let others = [stored.clone()];
        let (mut patch, mut operations, mut message) = (Vec::new(), Vec::new(), Vec::new());
        if with_schema {
            patch = serde_json::to_vec(&turned).unwrap();
            operations = serde_json::to_vec(&patch_operations(&stored, place)).unwrap();
            message = protobuf::encode(&stored, row.schema).unwrap_or_default();
        }
        Some(Self { row, text, decoded, stored, turned, patch, operations, message, others })
    }

    /// The steps that depend on nothing but the schema.
    pub(crate) fn schema_steps(&self) -> Vec<Step<'_>> {
        let Self { row, text, stored, patch, operations, message, .. } = self;
        vec![
            ("decode", Box::new(|| drop(black_box(decode::json(text, row.schema))))),
            ("decode a value", Box::new(|| drop(decode::value(Value::Object(stored.clone()), row.schema)))),
            ("merge", Box::new(|| drop(patch::apply(PatchKind::Merge, stored.clone(), patch, row.schema)))),
            (
                "merge strategically",
                Box::new(|| drop(patch::apply(PatchKind::Strategic, stored.clone(), patch, row.schema))),
            ),
            (
                "apply operations",
                Box::new(|| drop(patch::apply(PatchKind::Json, stored.clone(), operations, row.schema))),
            ),
            ("write protobuf", Box::new(|| drop(protobuf::encode(stored, row.schema)))),
            ("read protobuf", Box::new(|| drop(protobuf::message(message, row.schema)))),
        ]
    }

    /// What the hooks for the requests of clients do with the turned object.
    fn run_hooks(&self, hooks: OnRequest, old: Option<&Map>) {
        let context = Context {
            now: 0,
            requester: Requester { name: "a", uid: "", groups: &[], extra: &EXTRA },
            stored: &self.others,
            namespace: Some(&NOTHING),
            ranges: &RANGES,
            certificates: &AnyCertificate,
            expression_faults: &FAULTS,
            compile_errors: &FieldErrors::new(),
        };
        let mut object = self.turned.clone();
        let _ = black_box((hooks.complete)(&mut object, old, &context));
        black_box((hooks.expressions)(&object, old));
        black_box(hooks.validate.map(|validate| validate(&object, old, &context)));
    }

    /// The steps of writing, showing and deleting an object that the kind itself determines.
    pub(crate) fn kind_steps(&self) -> Vec<Step<'_>> {
        let Self { row, decoded, stored, turned, .. } = self;
        let changed = move |prepare: fn(&mut Map, &Map)| {
            let mut object = turned.clone();
            prepare(&mut object, stored);
            object
        };
        let mut steps: Vec<Step<'_>> = vec![
            ("default", Box::new(|| (row.default)(&mut decoded.clone()))),
            ("prepare a create", Box::new(|| (row.prepare_create)(&mut stored.clone()))),
            ("validate a create", Box::new(|| drop((row.validate_create)(stored)))),
            ("validate metadata", Box::new(|| drop(meta::validate(stored, row)))),
            ("prepare an update", Box::new(move || drop(changed(row.prepare_update)))),
            ("validate an update", Box::new(|| drop((row.validate_update)(turned, stored)))),
            (
                "validate metadata of an update",
                Box::new(|| drop(meta::validate_update(turned, stored, row, false))),
            ),
            ("prepare a status", Box::new(move || drop(changed(row.prepare_status)))),
            ("validate a status", Box::new(|| drop((row.validate_status)(turned, stored)))),
            ("hooks of a create", Box::new(|| self.run_hooks(row.on_create, None))),
            ("hooks of an update", Box::new(|| self.run_hooks(row.on_update, Some(stored)))),
            ("hooks of a status", Box::new(|| self.run_hooks(row.on_status, Some(stored)))),
            ("row of a table", Box::new(|| drop((row.row)(stored, 0)))),
            ("delete", Box::new(|| drop((row.delete)(stored, None, 0)))),
            (
                "is held",
                Box::new(|| {
                    black_box((row.is_held)(stored));
                }),
            ),
            ("fields", Box::new(|| row.selectable.iter().for_each(|field| drop((field.value)(stored))))),
        ];
        for below in row.subresources {
            match below.behaviour {
                Behaviour::Object(update) => steps.push((
                    below.name,
                    Box::new(move || {
                        drop((update.validate)(&changed(update.prepare), stored));
                        self.run_hooks(update.on_request, Some(stored));
                    }),
                )),
                Behaviour::Part(part) => steps.push((
                    below.name,
                    Box::new(move || drop((part.put)(&mut turned.clone(), &(part.show)(stored)))),
                )),
                _ => {}
            }
        }
        for conversion in row.version_of.into_iter().chain(row.stored_as) {
            steps.push((
                "convert",
                Box::new(move || {
                    drop(black_box((conversion.from)((conversion.to)(stored.clone()), row)));
                }),
            ));
        }
        for version in Kinds::built_in().rows() {
            if let Some(conversion) = version.version_of.filter(|conversion| conversion.row == *row) {
                steps.push((
                    version.version,
                    Box::new(move || {
                        drop(black_box((conversion.to)((conversion.from)(stored.clone(), version))));
                    }),
                ));
            }
        }
        steps
    }
}
