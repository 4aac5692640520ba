//! The context of a request for the functions of a row: the time, the user, other stored objects. All of it is plain data
//! that the server gathers beforehand; the hooks read no clock and no store.

use std::collections::BTreeMap;

use portcullis_apimachinery::field_error::FieldErrors;

use super::custom::CustomStrategy;
use crate::Map;
use crate::resources::core::services::ServiceRanges;

/// The context of a request, for the hooks of a row.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The time, in seconds since 1970.
    pub now: i64,
    /// The user who makes the request.
    pub requester: Requester<'a>,
    /// Every stored object of the kind, for [`Need::AllOfKind`]. Nobody else adds one before the write is stored.
    pub stored: &'a [Map],
    /// The namespace of the request, for [`Need::Namespace`]; nothing when there is none.
    pub namespace: Option<&'a Map>,
    /// Where services get their addresses and node ports from.
    pub ranges: &'a ServiceRanges,
    /// Reads certificates.
    pub certificates: &'a dyn Certificates,
    /// What is wrong with those of [`OnRequest::expressions`] that cannot be compiled, by expression.
    pub expression_faults: &'a BTreeMap<String, String>,
    /// Everything wrong with an object whose expressions are compiled together: with [`ExpressionsAbout::Definitions`] and
    /// [`ExpressionsAbout::Policies`].
    pub compile_errors: &'a FieldErrors,
}

/// The user who makes the request.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The name of the user.
    pub name: &'a str,
    /// The unique id; empty when it is not known.
    pub uid: &'a str,
    /// The groups.
    pub groups: &'a [String],
    /// Further facts, by key.
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// Reads what is inside a CertificateSigningRequest. Another crate does that, so the server passes it in.
pub trait Certificates: Sync {
    /// The fault of a certificate request in PEM, if it has one (CS-11).
    fn request_fault(&self, pem: &[u8]) -> Option<String>;

    /// The fault of certificates in PEM, if they have one (CS-23).
    fn certificates_fault(&self, pem: &[u8]) -> Option<String>;
}

/// The other objects that a hook reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// All objects of the same kind. No other such write is made until this one is stored.
    AllOfKind,
    /// The namespace that the object is in.
    Namespace,
}

/// Validates a new object, or an updated one against the stored object.
pub type ValidateRequest = fn(&Map, Option<&Map>, &Context<'_>) -> FieldErrors;

/// What CEL expressions are about, which decides about their variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionsAbout {
    /// Custom objects: the definition is validated as a whole.
    Definitions,
    /// Devices: the variable `device`.
    Devices,
    /// Writes, as the expressions of a policy see them: the policy is compiled as a whole.
    Policies,
    /// Writes: the variables `request`, `object` and `oldObject` of match conditions of admission webhooks.
    Writes,
}

/// The hooks that run for requests of clients only. In each function `old` is `None` for a create.
#[derive(Clone, Copy, Debug)]
pub struct OnRequest {
    /// The other objects that the other hooks read.
    pub needs: fn(&Map) -> Need,
    /// The CEL expressions that must be compiled: those that the stored object does not have.
    pub expressions: for<'o> fn(&'o Map, Option<&'o Map>) -> Vec<&'o str>,
    /// What the expressions are about.
    pub about: ExpressionsAbout,
    /// Fills in what depends on the request. Runs after the row's own preparation.
    pub complete: fn(&mut Map, Option<&Map>, &Context<'_>) -> Result<(), Refusal>,
    /// Everything wrong with the object, in place of the row's own validation.
    pub validate: Option<ValidateRequest>,
}

impl OnRequest {
    /// The hooks of most kinds: none.
    pub const NOTHING: Self = Self {
        needs: |_| Need::Nothing,
        expressions: |_, _| Vec::new(),
        about: ExpressionsAbout::Devices,
        complete: |_, _, _| Ok(()),
        validate: None,
    };
}

/// Why an object is not given what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request is inconsistent or cannot be satisfied: 422 with only these causes.
    Invalid(FieldErrors),
    /// The pool is exhausted: 500.
    Internal(String),
}

/// The update strategy of one endpoint. The functions take first the new, then the old object.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    /// Keeps of the old object what cannot be changed here.
    pub prepare: fn(&mut Map, &Map),
    /// Everything wrong with the update, apart from the metadata.
    pub validate: fn(&Map, &Map) -> FieldErrors,
    /// The hooks for requests of clients.
    pub on_request: OnRequest,
    /// Whether this is the status.
    pub is_status: bool,
    /// The fields that are taken from clients, so that they can own them. `prepare` resets the others.
    pub keeps: Keeps,
    /// The field, in its part of the object, that objects cannot be created with and get here.
    pub adds: Option<(&'static str, &'static str)>,
    /// The custom kind that says the first two instead.
    pub custom: Option<&'static dyn CustomStrategy>,
}

impl Update {
    /// Everything may be changed, and nothing is wrong.
    pub const NOTHING: Self = Self {
        prepare: |_, _| {},
        validate: |_, _| FieldErrors::new(),
        on_request: OnRequest::NOTHING,
        is_status: false,
        keeps: Keeps::ALL,
        adds: None,
        custom: None,
    };

    /// Keeps of the old object what cannot be changed here.
    pub fn prepare(&self, object: &mut Map, old: &Map) {
        match self.custom {
            Some(custom) => custom.prepare_update(object, old, self.is_status),
            None => (self.prepare)(object, old),
        }
    }

    /// Everything wrong with the update, apart from the metadata.
    pub fn validate(&self, object: &Map, old: &Map) -> FieldErrors {
        match self.custom {
            Some(custom) => custom.validate(object, Some(old), self.is_status),
            None => (self.validate)(object, old),
        }
    }
}

/// The fields that an endpoint takes from a client. It resets all others to what they were, so nobody owns them through
/// it. Paths are names joined by dots, from the outside in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Everything but these fields and what is below them.
    Except(&'static [&'static str]),
    /// Only these fields and what is below them; `*` stands for every entry of a list.
    Only(&'static [&'static str]),
}

impl Keeps {
    /// Everything.
    pub const ALL: Self = Self::Except(&[]);
}

/// The action of a document that is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A Binding gives a pod its node (AP-120).
    Bind,
    /// An Eviction deletes a pod (AP-121).
    Evict,
    /// A TokenRequest is answered with a token of the service account (AN-90).
    RequestToken,
}

/// What becomes of the dependents of an object that is deleted, if neither the request nor a finalizer of the object says
/// (AP-52).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// They are deleted as well.
    Deleted,
    /// They stay, without the reference to their owner.
    Orphaned,
    /// Objects have no dependents: what a request says about them is ignored.
    None,
}

/// The effect of a delete on an object, before finalizers are considered.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// The object goes, unless finalizers hold it.
    Proceeds,
    /// It is being deleted already, and stays as it is.
    Waits,
    /// The object is changed to this, and stays until its deletion can complete.
    Begins(Map),
    /// It becomes this, and then goes, unless finalizers hold it.
    Ends(Map),
}
