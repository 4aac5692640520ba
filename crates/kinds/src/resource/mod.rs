//! One row of the table of kinds: everything that a server must know of a kind. Rows only describe: they read no clock,
//! no store and no file. What a request adds to the object is in `strategy`.

mod custom;
mod strategy;

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use portcullis_apimachinery::field_error::FieldErrors;
use portcullis_apimachinery::names::NameRule;
use portcullis_apimachinery::text::is_same;

use crate::Map;
use crate::schema::Type;
use crate::table::{Column, Row};

pub use custom::CustomStrategy;
pub use strategy::{
    Action, Certificates, Context, Deletion, Dependents, ExpressionsAbout, Keeps, Need, OnRequest, Refusal,
    Requester, Update, ValidateRequest,
};

/// A kind that is served, and unless it has an `action` also stored. The functions are pure. Those that take only
/// objects are all that a server asks for its own writes and for objects from files; for the requests of clients the
/// functions of [`OnRequest`] come on top.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version that is stored and preferred.
    pub version: &'static str,
    /// The kind: `Pod`.
    pub kind: &'static str,
    /// The name in paths: `pods`.
    pub plural: &'static str,
    /// Short names for kubectl (AP-102).
    pub short_names: &'static [&'static str],
    /// Categories for kubectl (AP-102).
    pub categories: &'static [&'static str],
    /// What to use instead, if the kind is deprecated. Clients are told so with every answer.
    pub deprecation: &'static str,
    /// Whether objects live in namespaces.
    pub is_namespaced: bool,
    /// Whether an object of this kind is itself a namespace: its name is then the namespace of requests about it.
    pub is_namespace: bool,
    /// The verbs of the objects and their collection, in name order (AP-101).
    pub verbs: &'static [&'static str],
    /// The action of a POST, for a resource whose documents are not stored.
    pub action: Option<Action>,
    /// The row of the stored version, and how objects become that version. For another version of a kind.
    pub version_of: Option<Conversion>,
    /// The row in whose form objects are stored, where that is not their own.
    pub stored_as: Option<Conversion>,
    /// The subresources, in name order (AP-101).
    pub subresources: &'static [Subresource],
    /// The schema of objects.
    pub schema: &'static Type,
    /// The rule for valid names (AP-33).
    pub names: NameRule,
    /// How often the kind's own validation of an update validates the metadata.
    pub metadata_checks: MetadataChecks,
    /// The fields supported by field selectors besides `metadata.name` and `metadata.namespace` (AP-74).
    pub selectable: &'static [Selectable],
    /// Whether field selectors support `metadata.namespace` (AP-75).
    pub selects_namespace: bool,
    /// The selectable field by which watches are told apart, if many clients watch a part of the collection each.
    pub index: Option<Index>,
    /// Whether objects grant permissions, so that a write is checked against what the caller holds (RB-50).
    pub grants_permissions: bool,
    /// Whether a delete returns the deleted object, rather than a Status (AP-50).
    pub deletes_to_object: bool,
    /// Whether a PUT on a missing object creates it (AP-41).
    pub creates_on_update: bool,
    /// Whether a PUT may omit the resourceVersion (AP-40).
    pub updates_unconditionally: bool,
    /// Whether an error of an update that has no field is reported alone, without those of the metadata (MP-15).
    pub reports_fieldless_alone: bool,
    /// Applies the defaults of the API's types (AP-110 to AP-113). Runs after every decoding.
    pub default: fn(&mut Map),
    /// Defaults that are times, for what comes from clients and files; at a time as objects hold it. Runs after
    /// `default`.
    pub default_times: fn(&mut Map, &str),
    /// Drops the fields that a client cannot set at creation, and sets the initial status (AP-30, AP-114).
    pub prepare_create: fn(&mut Map),
    /// Validates a new object, without its metadata.
    pub validate_create: fn(&Map) -> FieldErrors,
    /// The hooks of a create by a client.
    pub on_create: OnRequest,
    /// Restores the fields that an update of the main resource cannot change. The arguments are the new and the old
    /// object.
    pub prepare_update: fn(&mut Map, &Map),
    /// Validates an update, without the metadata. The arguments are the new and the old object.
    pub validate_update: fn(&Map, &Map) -> FieldErrors,
    /// The hooks of an update by a client.
    pub on_update: OnRequest,
    /// Like `prepare_update`, for the status subresource.
    pub prepare_status: fn(&mut Map, &Map),
    /// Like `validate_update`, for the status subresource.
    pub validate_status: fn(&Map, &Map) -> FieldErrors,
    /// The hooks of an update of the status by a client.
    pub on_status: OnRequest,
    /// The fields that an update of the main resource resets, as paths: see [`Keeps::Except`].
    pub resets: &'static [&'static str],
    /// The fields that an update of the status resets.
    pub status_resets: &'static [&'static str],
    /// The effect of a delete before finalizers are considered. Takes the object, the grace period that the request asks
    /// for and the time, both in seconds.
    pub delete: fn(&Map, Option<i64>, i64) -> Deletion,
    /// What a delete does to dependents by default.
    pub dependents: Dependents,
    /// Whether something besides the finalizers of the metadata holds an object that is being deleted.
    pub is_held: fn(&Map) -> bool,
    /// The kinds of which the object with the same name goes with one that is removed.
    pub removed_with: &'static [&'static Resource],
    /// The columns of tables (AP-91).
    pub columns: &'static [Column],
    /// The row of an object, at a time in seconds since 1970 (AP-92).
    pub row: fn(&Map, i64) -> Row,
    /// What the definition of a custom kind says, in addition to the fields here.
    pub custom: Option<&'static dyn Custom>,
}

/// A version of a custom kind, with its rows.
pub trait Custom: CustomStrategy {
    /// The row of the version in which objects are stored; that of this version once the definition is gone.
    fn storage(&self) -> &'static Resource;

    /// The subresources.
    fn subresources(&self) -> &'static [Subresource];
}

/// A field that field selectors support.
#[derive(Clone, Copy, Debug)]
pub struct Selectable {
    /// The name: `spec.nodeName`.
    pub name: &'static str,
    /// Its value in an object; empty when it is not set.
    pub value: for<'a> fn(&'a Map) -> Cow<'a, str>,
}

impl Selectable {
    /// A field with its name and its value in an object.
    pub const fn new(name: &'static str, value: for<'a> fn(&'a Map) -> Cow<'a, str>) -> Self {
        Self { name, value }
    }
}

/// A field by which the watches of a collection are told apart: a change is brought to the watches of the one value
/// that it concerns, not compared with what each of thousands of clients wants.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    /// The name of the selectable field: `spec.nodeName`. Its value stands in the object as it is.
    pub field: &'static str,
    /// Reads the value out of a stored object, in JSON; nothing when it is empty.
    pub read: fn(&[u8]) -> Option<Box<str>>,
}

/// The conversion of objects of one row to another, and back.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// The other row.
    pub row: &'static Resource,
    /// An object of this row as one of the other.
    pub to: fn(Map) -> Map,
    /// An object of the other row as one of this, which is the second argument.
    pub from: fn(Map, &Resource) -> Map,
}

/// A subresource of an object.
#[derive(Clone, Copy, Debug)]
pub struct Subresource {
    /// The name in paths: `status`.
    pub name: &'static str,
    /// The kind of its documents.
    pub kind: &'static str,
    /// The group of its documents, if it differs from the resource's.
    pub group: Option<&'static str>,
    /// The version of its documents, if it differs from the resource's.
    pub version: Option<&'static str>,
    /// The supported verbs, in name order.
    pub verbs: &'static [&'static str],
    /// The behavior of requests.
    pub behaviour: Behaviour,
}

/// A behavior of requests to a subresource.
#[derive(Clone, Copy, Debug)]
pub enum Behaviour {
    /// Reads the object and changes its status.
    Status,
    /// Reads the object and changes it in another way.
    Object(&'static Update),
    /// Reads and writes a part of the object, as a document of another kind.
    Part(&'static Part),
    /// Acts on a document that is not stored.
    Action(Action),
    /// Connects to the kubelet, or to another server.
    Connect,
}

/// A part of objects that clients read and write as a document of another kind, such as their scale.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The kind of the documents, which are not stored.
    pub row: &'static Resource,
    /// The document of an object. It has the name of the object, its uid and its resourceVersion.
    pub show: fn(&Map) -> Map,
    /// Writes a document back into its object, unless something is wrong with the document.
    pub put: fn(&mut Map, &Map) -> Result<(), FieldErrors>,
    /// The custom kind that says both instead.
    pub custom: Option<&'static dyn CustomStrategy>,
}

impl Part {
    /// The document of an object.
    ///
    /// # Errors
    /// The object has no such document.
    pub fn document(&self, object: &Map) -> Result<Map, String> {
        match self.custom {
            Some(custom) => custom.scale(object),
            None => Ok((self.show)(object)),
        }
    }

    /// Writes a document back into its object.
    ///
    /// # Errors
    /// Something is wrong with the document.
    pub fn write(&self, object: &mut Map, document: &Map) -> Result<(), FieldErrors> {
        match self.custom {
            Some(custom) => custom.set_scale(object, document),
            None => (self.put)(object, document),
        }
    }
}

/// The action of a request.
#[derive(Clone, Copy, Debug)]
pub enum Endpoint {
    /// Reads and writes objects, which are updated like this.
    Object(Update),
    /// Reads and writes a part of objects as documents of another kind.
    Part(&'static Part),
    /// Acts on a document that is not stored.
    Action(Action),
    /// Connects to the kubelet.
    Connect,
}

/// How often a kind's own validation of an update repeats the metadata validation. Each repetition reports the same
/// errors again (AP-22). An update of the status validates the metadata once more, as an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataChecks {
    /// How often as a new object.
    pub alone: u8,
    /// How often as an update of the stored object.
    pub as_update: u8,
    /// Whether a finalizer without a domain must be one of Kubernetes (not for leases).
    pub knows_finalizers: bool,
}

impl MetadataChecks {
    /// The usual value: once each.
    pub const USUAL: Self = Self { alone: 1, as_update: 1, knows_finalizers: true };
}

/// The verbs of stored objects (AP-101).
pub const STORED_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// `get`, `patch`, `update`: the verbs of a status subresource.
pub const STATUS_VERBS: &[&str] = &["get", "patch", "update"];
/// The verb of what is acted on and not stored.
pub const CREATE_VERBS: &[&str] = &["create"];

impl Subresource {
    /// Whether its objects can be shown as a table: as kubectl shows those of `status` and `scale`.
    pub fn has_table(&self) -> bool {
        matches!(self.name, "status" | "scale")
    }

    /// Whether a path follows it, which is passed on to another server.
    pub fn takes_path(&self) -> bool {
        matches!(self.behaviour, Behaviour::Connect) && self.name == "proxy"
    }

    /// The status subresource of a kind (AP-101).
    pub const fn status(kind: &'static str) -> Self {
        Self { behaviour: Behaviour::Status, ..Self::object("status", kind, &Update::NOTHING) }
    }

    /// Another way to change objects of a kind.
    pub const fn object(name: &'static str, kind: &'static str, update: &'static Update) -> Self {
        let behaviour = Behaviour::Object(update);
        Self { name, kind, group: None, version: None, verbs: STATUS_VERBS, behaviour }
    }

    /// Documents of a kind that are acted on.
    pub const fn action(name: &'static str, kind: &'static str, action: Action) -> Self {
        let behaviour = Behaviour::Action(action);
        Self { name, kind, group: None, version: None, verbs: CREATE_VERBS, behaviour }
    }

    /// A connection to the kubelet.
    pub const fn connect(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { name, kind, group: None, version: None, verbs, behaviour: Behaviour::Connect }
    }
}

/// The schema of a row that has none yet.
static NOTHING: Type = Type::new("", "", &[]);

impl Resource {
    /// The usual values. A row overrides those that differ, and always its names, schema, columns and row.
    pub const USUAL: Self = Self {
        group: "",
        version: "v1",
        kind: "",
        plural: "",
        short_names: &[],
        categories: &[],
        deprecation: "",
        is_namespaced: true,
        is_namespace: false,
        verbs: STORED_VERBS,
        action: None,
        version_of: None,
        stored_as: None,
        subresources: &[],
        schema: &NOTHING,
        names: NameRule::Subdomain,
        metadata_checks: MetadataChecks::USUAL,
        selectable: &[],
        selects_namespace: true,
        index: None,
        grants_permissions: false,
        deletes_to_object: false,
        creates_on_update: false,
        updates_unconditionally: true,
        reports_fieldless_alone: false,
        default: |_| {},
        default_times: |_, _| {},
        prepare_create: |_| {},
        validate_create: |_| FieldErrors::new(),
        on_create: OnRequest::NOTHING,
        prepare_update: |_, _| {},
        validate_update: |_, _| FieldErrors::new(),
        on_update: OnRequest::NOTHING,
        prepare_status: |_, _| {},
        validate_status: |_, _| FieldErrors::new(),
        on_status: OnRequest::NOTHING,
        resets: &["status"],
        status_resets: &["spec"],
        delete: |_, _, _| Deletion::Proceeds,
        dependents: Dependents::Deleted,
        is_held: |_| false,
        removed_with: &[],
        columns: &[],
        row: |_, _| Row::default(),
        custom: None,
    };

    /// `v1` or `rbac.authorization.k8s.io/v1`.
    pub fn api_version(&self) -> Cow<'static, str> {
        match self.group {
            "" => Cow::Borrowed(self.version),
            group => Cow::Owned([group, "/", self.version].concat()),
        }
    }

    /// The row of the version in which objects are stored.
    pub fn current(&'static self) -> &'static Self {
        self.version_of.map_or(self, |conversion| conversion.row)
    }

    /// The row in whose form objects are stored.
    pub fn storage(&'static self) -> &'static Self {
        match self.custom {
            Some(custom) => custom.storage(),
            None => self.stored_as.map_or(self.current(), |conversion| conversion.row),
        }
    }

    /// The subresources.
    pub fn subresources(&self) -> &'static [Subresource] {
        self.custom.map_or(self.subresources, |custom| custom.subresources())
    }

    /// The kind of lists: `PodList`.
    pub fn list_kind(&self) -> String {
        match self.custom {
            Some(custom) => custom.names().list_kind,
            None => format!("{}List", self.kind),
        }
    }

    /// Drops the fields that a client cannot set at creation, and sets the initial status.
    pub fn prepare_new(&self, object: &mut Map) {
        (self.prepare_create)(object);
        if let Some(custom) = self.custom {
            custom.prepare_create(object);
        }
    }

    /// Everything wrong with a new object, without its metadata.
    pub fn validate_new(&self, object: &Map) -> FieldErrors {
        match self.custom {
            Some(custom) => custom.validate(object, None, false),
            None => (self.validate_create)(object),
        }
    }

    /// The behavior of requests to an object, a collection, or a subresource.
    pub fn endpoint(&self, subresource: Option<&Subresource>) -> Endpoint {
        match subresource.map(|subresource| subresource.behaviour) {
            None => self.action.map_or_else(|| Endpoint::Object(self.update()), Endpoint::Action),
            Some(Behaviour::Status) => Endpoint::Object(Update {
                prepare: self.prepare_status,
                validate: self.validate_status,
                on_request: self.on_status,
                is_status: true,
                keeps: Keeps::Except(self.status_resets),
                adds: None,
                custom: self.strategy(),
            }),
            Some(Behaviour::Object(update)) => Endpoint::Object(*update),
            Some(Behaviour::Part(part)) => Endpoint::Part(part),
            Some(Behaviour::Action(action)) => Endpoint::Action(action),
            Some(Behaviour::Connect) => Endpoint::Connect,
        }
    }

    /// The update strategy of the objects themselves.
    pub fn update(&self) -> Update {
        Update {
            prepare: self.prepare_update,
            validate: self.validate_update,
            on_request: self.on_update,
            custom: self.strategy(),
            keeps: match self.has_status() {
                true => Keeps::Except(self.resets),
                false => Keeps::ALL,
            },
            ..Update::NOTHING
        }
    }

    /// Whether an update of the main resource leaves the status to its own endpoint. A custom kind can be without one.
    fn has_status(&self) -> bool {
        self.custom.is_none_or(|custom| {
            custom.subresources().iter().any(|below| matches!(below.behaviour, Behaviour::Status))
        })
    }

    /// What the definition of a custom kind says about requests.
    fn strategy(&self) -> Option<&'static dyn CustomStrategy> {
        self.custom.map(|custom| custom as &dyn CustomStrategy)
    }

    /// The names by which a row is known.
    fn id(&self) -> (&'static str, &'static str, &'static str) {
        (self.plural, self.group, self.version)
    }
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        let ((plural, group, version), (other_plural, other_group, other_version)) = (self.id(), other.id());
        plural == other_plural && is_same(group, other_group) && version == other_version
    }
}

impl Eq for Resource {}

impl Hash for Resource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}
