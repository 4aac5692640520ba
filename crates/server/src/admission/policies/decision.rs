//! Turns failed validations into a refusal, warnings, and annotations for the audit log.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use super::metrics::{ErrorType, PolicyMetrics};
use super::policy::{Action, Binding, Policy};
use crate::admission::remarks::Remarks;
use crate::http::status::{Cause, Status};
use crate::match_conditions::policies::{Checked, Judgement};
use crate::registry::admission::AdmissionAttributes;

/// The annotation with what is noted for the audit log.
const FAILURES: &str = "validation.policy.admission.k8s.io/validation_failure";
/// The most failures that are noted of a request.
const MAX_FAILURES: usize = 100;
/// The longest value of an annotation, and of all values for one annotation together, in bytes.
const MAX_ANNOTATION: usize = 10 << 10;
const MAX_ANNOTATIONS: usize = 64 << 10;

/// The decisions about one write.
pub(super) struct Decisions<'m> {
    metrics: &'m PolicyMetrics,
    /// The first refusal: the message with its reason.
    refusal: Option<(String, String)>,
    warnings: Vec<String>,
    failures: Vec<Value>,
    /// The annotations of the policy that is being looked at, by key.
    annotations: Vec<(String, Vec<String>)>,
}

impl<'m> Decisions<'m> {
    /// None yet. They are counted in these metrics.
    pub(super) fn new(metrics: &'m PolicyMetrics) -> Self {
        Self { metrics, refusal: None, warnings: Vec::new(), failures: Vec::new(), annotations: Vec::new() }
    }

    /// A policy cannot be applied, whatever its binding says.
    pub(super) fn misconfigured(&mut self, policy: &Policy, binding: &Binding, why: &str) {
        if policy.ignores_failure {
            let (policy, binding) = (&*policy.name, &*binding.name);
            tracing::warn!(policy, binding, why, "an admission policy cannot be applied: the write goes on");
            return;
        }
        self.refuse(policy, binding, &format!("failed to configure binding: {why}"), "");
    }

    /// A policy cannot be compiled here. DIVERGES: that refuses the write in the way of the binding, also where failures are
    /// ignored: what another server can compile is not left out.
    pub(super) fn uncompiled(&mut self, policy: &Policy, binding: &Binding, why: &str) {
        self.denied(policy, binding, 0, (why, ""), (ErrorType::Uncompiled, Duration::ZERO));
    }

    /// Takes what a policy says about the write.
    pub(super) fn judged(&mut self, policy: &Policy, binding: &Binding, judgement: Judgement) {
        let (checked, annotations) = match judgement {
            Judgement::Unmatched => return,
            Judgement::Failed(why) => return self.failed(policy, binding, 0, &why, Duration::ZERO),
            Judgement::Judged(checked, annotations) => (checked, annotations),
        };
        for (at, (checked, elapsed)) in checked.into_iter().enumerate() {
            let made = match checked {
                Checked::Holds => continue,
                Checked::Failed(why) => {
                    self.failed(policy, binding, at, &why, elapsed);
                    continue;
                }
                Checked::Fails(made) => made,
            };
            let Some(validation) = policy.texts.validations.get(at) else { continue };
            let message = made.unwrap_or_else(|| match validation.message.trim() {
                "" => format!("failed expression: {}", validation.expression.trim()),
                message => message.to_owned(),
            });
            let told = (&*message, &*validation.reason);
            self.denied(policy, binding, at, told, (ErrorType::Invalid, elapsed));
        }
        for (at, (annotation, elapsed)) in annotations.into_iter().enumerate() {
            match annotation {
                Ok(None) => {}
                Ok(Some(value)) => self.annotate(policy, at, &value),
                Err(why) if policy.ignores_failure => {
                    let policy = &*policy.name;
                    tracing::warn!(policy, why, "an audit annotation of an admission policy failed");
                }
                Err(why) => {
                    self.metrics.checked(
                        (&policy.name, &binding.name),
                        ErrorType::of(&why),
                        Action::Deny.enforced(),
                        elapsed,
                    );
                    self.refuse(policy, binding, &why, "");
                }
            }
        }
    }

    /// An expression failed.
    fn failed(&mut self, policy: &Policy, binding: &Binding, at: usize, why: &str, elapsed: Duration) {
        let error = ErrorType::of(why);
        if policy.ignores_failure {
            let (policy, binding) = (&*policy.name, &*binding.name);
            self.metrics.checked((policy, binding), error, "allow", elapsed);
            tracing::warn!(policy, binding, why, "an admission policy failed: the write goes on");
            return;
        }
        self.denied(policy, binding, at, (why, ""), (error, elapsed));
    }

    /// The policy is against the write. The binding says what becomes of it.
    fn denied(
        &mut self,
        policy: &Policy,
        binding: &Binding,
        at: usize,
        (message, reason): (&str, &str),
        (error, elapsed): (ErrorType, Duration),
    ) {
        for action in &binding.actions {
            self.metrics.checked((&policy.name, &binding.name), error, action.enforced(), elapsed);
            match action {
                Action::Deny => self.refuse(policy, binding, message, reason),
                Action::Warn => self.warnings.push(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                    policy.name, binding.name
                )),
                Action::Audit if self.failures.len() < MAX_FAILURES => {
                    let actions: Vec<&str> = binding.actions.iter().map(|action| action.as_str()).collect();
                    self.failures.push(json!({
                        "message": message, "policy": policy.name, "binding": binding.name,
                        "expressionIndex": at, "validationActions": actions,
                    }));
                }
                Action::Audit => {}
            }
        }
    }

    fn refuse(&mut self, policy: &Policy, binding: &Binding, message: &str, reason: &str) {
        if self.refusal.is_none() {
            let message = format!(
                "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {message}",
                policy.name, binding.name
            );
            self.refusal = Some((message, reason.to_owned()));
        }
    }

    fn annotate(&mut self, policy: &Policy, at: usize, value: &str) {
        let Some(annotation) = policy.texts.audit_annotations.get(at) else { return };
        let value = value.get(..value.floor_char_boundary(MAX_ANNOTATION)).unwrap_or(value);
        let place = self.annotations.iter().position(|(key, _)| *key == annotation.key);
        let values = match place.and_then(|at| self.annotations.get_mut(at)) {
            Some((_, values)) => values,
            None => {
                self.annotations.push((annotation.key.clone(), vec![value.to_owned()]));
                return;
            }
        };
        let length = values.iter().map(String::len).fold(value.len(), usize::saturating_add);
        if length <= MAX_ANNOTATIONS && !values.iter().any(|known| known == value) {
            values.push(value.to_owned());
        }
    }

    /// All bindings of a policy have been looked at.
    pub(super) fn finish(&mut self, policy: &Policy, remarks: &Remarks) {
        for (key, values) in self.annotations.drain(..) {
            remarks.annotate(format!("{}/{key}", policy.name), values.join(", "));
        }
    }

    /// The outcome for the write.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn outcome(
        self,
        attributes: &AdmissionAttributes<'_>,
        remarks: &Remarks,
    ) -> Result<(), Status> {
        remarks.warn(self.warnings);
        if !self.failures.is_empty() {
            // DIVERGES: the list holds the failures of all policies. kube-apiserver notes that of one.
            remarks.annotate(FAILURES, Value::from(self.failures).to_string());
        }
        let Some((message, reason)) = self.refusal else { return Ok(()) };
        let (code, reason) = match &*reason {
            "Unauthorized" => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            "Forbidden" => (StatusCode::FORBIDDEN, "Forbidden"),
            "RequestEntityTooLarge" => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
        };
        let cause = Cause { reason: "".into(), message: message.clone(), field: String::new() };
        Err(attributes.forbidden(&message, vec![cause]).with_reason(code, reason))
    }
}
