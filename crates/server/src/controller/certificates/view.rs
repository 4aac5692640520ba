//! A typed view of a stored CertificateSigningRequest.

use std::time::SystemTime;

use kinds::decode::bytes;
use kinds::resources::certificates::{APPROVED, DENIED, FAILED, stamp_conditions};
use kinds::{Map, resources};
use pki::Csr;
use policy::User;
use policy::approval::{Asked, Signer};
use portcullis_apimachinery::time::Instant;
use serde_json::{Value, json};

use crate::http::status::Status;

/// A stored request.
#[derive(Clone, Copy)]
pub(super) struct View<'o>(pub(super) &'o Map);

impl<'o> View<'o> {
    fn field(self, part: &str, name: &str) -> Option<&'o Value> {
        self.0.get(part)?.get(name)
    }

    fn text(self, part: &str, name: &str) -> &'o str {
        self.field(part, name).and_then(Value::as_str).unwrap_or_default()
    }

    fn texts(self, name: &str) -> Vec<&'o str> {
        let list = self.field("spec", name).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Returns the signer; none for one that is not from Kubernetes.
    pub(super) fn signer(self) -> Option<Signer> {
        Signer::named(self.text("spec", "signerName"))
    }

    /// Returns the requester as the server recorded it (CS-1, CS-82).
    pub(super) fn requester(self) -> User {
        let mut user =
            User::new(self.text("spec", "username"), self.texts("groups").into_iter().map(str::to_owned));
        self.text("spec", "uid").clone_into(&mut user.uid);
        let extra = self.field("spec", "extra").and_then(Value::as_object);
        for (name, values) in extra.into_iter().flatten() {
            let values = values.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            user.extra.insert(name.clone(), values.collect());
        }
        user
    }

    /// `spec.usages`.
    pub(super) fn usages(self) -> Vec<&'o str> {
        self.texts("usages")
    }

    /// `spec.expirationSeconds`.
    pub(super) fn expiration_seconds(self) -> Option<u64> {
        self.field("spec", "expirationSeconds").and_then(Value::as_u64)
    }

    /// Returns the PKCS#10 request, with its signature verified.
    ///
    /// # Errors
    /// The request is invalid. A validating API server does not store such an object.
    pub(super) fn csr(self) -> Result<Csr, Status> {
        let pem = bytes(self.0, "spec", "request").map_err(Status::internal)?;
        Csr::from_pem(&pem).map_err(Status::internal)
    }

    /// Returns whether there is a certificate.
    pub(super) fn has_certificate(self) -> bool {
        !self.text("status", "certificate").is_empty()
    }

    /// Returns the certificate in PEM; empty if there is none.
    pub(super) fn certificate(self) -> Vec<u8> {
        bytes(self.0, "status", "certificate").unwrap_or_default()
    }

    fn conditions(self) -> impl Iterator<Item = &'o Value> {
        self.field("status", "conditions").and_then(Value::as_array).into_iter().flatten()
    }

    /// Returns whether there is any condition.
    pub(super) fn has_conditions(self) -> bool {
        self.conditions().next().is_some()
    }

    fn condition(self, kind: &str) -> Option<&'o Value> {
        self.conditions().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
    }

    pub(super) fn is_approved(self) -> bool {
        self.condition(APPROVED).is_some()
    }

    pub(super) fn is_denied(self) -> bool {
        self.condition(DENIED).is_some()
    }

    pub(super) fn is_failed(self) -> bool {
        self.condition(FAILED).is_some()
    }

    /// Returns when a condition of this type was last updated. In seconds since 1970; none without such a condition or
    /// a time (CS-91).
    pub(super) fn written(self, kind: &str) -> Option<i64> {
        seconds(self.condition(kind)?.get("lastUpdateTime")?)
    }

    /// Returns when the request was created.
    pub(super) fn created(self) -> Option<i64> {
        seconds(self.field("metadata", "creationTimestamp")?)
    }

    /// Returns the request with another condition, which is true.
    pub(super) fn with_condition(self, kind: &str, reason: &str, message: &str, now: SystemTime) -> Map {
        let mut object = self.0.clone();
        let condition = json!({"type": kind, "status": "True", "reason": reason, "message": message});
        if let Some(status) = status(&mut object)
            && let Some(conditions) = status.entry("conditions").or_insert_with(|| json!([])).as_array_mut()
        {
            conditions.push(condition);
        }
        stamp_conditions(&mut object, self.0, &now_text(now));
        object
    }

    /// Returns the request with this certificate.
    pub(super) fn with_certificate(self, base64: String) -> Map {
        let mut object = self.0.clone();
        if let Some(status) = status(&mut object) {
            status.insert("certificate".to_owned(), base64.into());
        }
        object
    }
}

fn status(object: &mut Map) -> Option<&mut Map> {
    object.entry("status").or_insert_with(|| json!({})).as_object_mut()
}

fn seconds(time: &Value) -> Option<i64> {
    let time = Instant::parse(time.as_str()?).ok()?;
    (time != Instant::ZERO).then_some(time.seconds)
}

/// Seconds since 1970.
pub(super) fn seconds_of(now: SystemTime) -> i64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn now_text(now: SystemTime) -> String {
    Instant::of_seconds(seconds_of(now)).to_string()
}

/// Returns the contents of the PKCS#10 request in the form that the signer rules expect.
pub(super) fn asked<'a>(csr: &'a Csr, organizations: &'a [&'a str], usages: &'a [&'a str]) -> Asked<'a> {
    let names = csr.names();
    Asked {
        // Values that are not text are ignored.
        common_name: csr.subject().common_name().unwrap_or_default(),
        organizations,
        dns_names: names.dns.len(),
        email_addresses: names.email.len(),
        ip_addresses: names.ip.len(),
        uris: names.uri.len(),
        usages,
    }
}

/// The resource of these objects.
pub(super) use resources::certificates::CERTIFICATE_SIGNING_REQUESTS as REQUESTS;
