//! The parsers of external input and their invariants; a new parser is a new row.

mod admission_configuration;
mod admission_policies;
mod apply;
mod approver;
mod attestation;
mod audit;
mod authorization;
mod bootstrap;
mod certificates;
mod credentials;
mod custom_kinds;
mod delegated;
mod encryption;
mod etcd;
mod explain_page;
mod export;
mod http2;
mod kinds;
mod object_rules;
mod objects;
mod patches;
mod policies;
mod rehearsal;
mod requests;
mod review_lines;
mod reviews;
mod tokens;
mod tpm;

/// A parser of external input.
pub(crate) struct Target {
    /// The name of the target and of its corpus.
    pub(crate) name: &'static str,
    /// The words of its format.
    pub(crate) dictionary: &'static [&'static str],
    /// Parses an input and returns whether it was accepted; panics if an invariant is violated.
    pub(crate) run: fn(&[u8]) -> bool,
}

/// All targets.
pub(crate) const TARGETS: &[Target] = &[
    Target { name: "json", dictionary: objects::JSON, run: objects::json },
    Target { name: "object-json", dictionary: kinds::OBJECT_JSON, run: kinds::object_json },
    Target { name: "custom-kind", dictionary: custom_kinds::CUSTOM, run: custom_kinds::custom_kind },
    Target { name: "object-rules", dictionary: object_rules::OBJECT, run: object_rules::object_rules },
    Target { name: "patch", dictionary: patches::PATCH, run: patches::patch },
    Target { name: "patch-of-large-object", dictionary: patches::PATCH, run: patches::patch_of_large_object },
    Target { name: "fields-v1", dictionary: apply::FIELDS, run: apply::fields_v1 },
    Target { name: "apply", dictionary: apply::APPLY, run: apply::apply },
    Target { name: "object-protobuf", dictionary: kinds::OBJECT_PROTOBUF, run: kinds::object_protobuf },
    Target { name: "state-archive", dictionary: objects::STATE_ARCHIVE, run: objects::state_archive },
    Target { name: "state-json", dictionary: objects::STATE_JSON, run: objects::state_json },
    Target { name: "state-yaml", dictionary: objects::STATE_YAML, run: objects::state_yaml },
    Target { name: "rbac-legacy", dictionary: objects::RBAC_LEGACY, run: objects::rbac_legacy },
    Target { name: "explain-page", dictionary: explain_page::QUESTION, run: explain_page::explain_page },
    Target { name: "http2", dictionary: http2::FRAMES, run: http2::http2 },
    Target { name: "request-info", dictionary: requests::TARGET, run: requests::request_info },
    Target { name: "kubelet-request", dictionary: requests::TARGET, run: requests::kubelet_request },
    Target { name: "kubelet-route", dictionary: requests::TARGET, run: requests::kubelet_route },
    Target { name: "field-selector", dictionary: requests::SELECTOR, run: requests::field_selector },
    Target { name: "label-selector", dictionary: requests::SELECTOR, run: requests::label_selector },
    Target { name: "abac", dictionary: policies::ABAC, run: policies::abac },
    Target { name: "deny-rules", dictionary: policies::DENY, run: policies::deny },
    Target { name: "audit-event", dictionary: rehearsal::EVENT, run: rehearsal::audit_event },
    Target { name: "audit-policy", dictionary: audit::POLICY, run: audit::policy },
    Target { name: "feature-gates", dictionary: policies::FLAGS, run: policies::feature_gates },
    Target {
        name: "authorization-configuration",
        dictionary: authorization::CONFIGURATION,
        run: authorization::configuration,
    },
    Target {
        name: "webhook-kubeconfig",
        dictionary: authorization::KUBECONFIG,
        run: authorization::connection,
    },
    Target { name: "webhook-answer", dictionary: authorization::ANSWER, run: authorization::webhook_answer },
    Target { name: "match-condition", dictionary: authorization::CONDITION, run: authorization::condition },
    Target {
        name: "admission-condition",
        dictionary: authorization::WRITE_CONDITION,
        run: authorization::admission_condition,
    },
    Target { name: "device-selector", dictionary: authorization::SELECTOR, run: authorization::selector },
    Target { name: "access-review", dictionary: reviews::ACCESS, run: reviews::access_review },
    Target {
        name: "admission-policy",
        dictionary: admission_policies::POLICY,
        run: admission_policies::admission_policy,
    },
    Target { name: "admission-review", dictionary: reviews::ADMISSION, run: reviews::admission_review },
    Target { name: "admission-reply", dictionary: reviews::REPLY, run: reviews::admission_reply },
    Target { name: "review-lines", dictionary: review_lines::WORDS, run: review_lines::review_lines },
    Target { name: "pem", dictionary: certificates::PEM, run: certificates::pem },
    Target { name: "csr-pem", dictionary: certificates::PEM, run: certificates::csr_pem },
    Target { name: "csr-der", dictionary: certificates::DER, run: certificates::csr_der },
    Target { name: "certificate-pem", dictionary: certificates::PEM, run: certificates::certificate_pem },
    Target { name: "certificate-der", dictionary: certificates::DER, run: certificates::certificate_der },
    Target { name: "attested-request", dictionary: attestation::REQUEST, run: attestation::request },
    Target { name: "attestation-envelope", dictionary: attestation::ENVELOPE, run: attestation::envelope },
    Target { name: "tpm-structure", dictionary: attestation::STRUCTURE, run: attestation::structure },
    Target { name: "endorsement-certificate", dictionary: certificates::DER, run: attestation::certificate },
    Target { name: "approver-config", dictionary: approver::CONFIG, run: approver::config },
    Target { name: "machine", dictionary: approver::MACHINE, run: approver::machine },
    Target { name: "certificate-pair", dictionary: certificates::PEM, run: credentials::certificate_pair },
    Target { name: "exec-info", dictionary: credentials::EXEC, run: credentials::exec_info },
    Target { name: "review-answer", dictionary: delegated::ANSWER, run: delegated::review_answer },
    Target { name: "access-evidence", dictionary: delegated::LOG, run: delegated::evidence },
    Target { name: "bootstrap-bundle", dictionary: bootstrap::BUNDLE, run: bootstrap::bundle },
    Target { name: "tpm-responses", dictionary: tpm::RESPONSE, run: tpm::responses },
    Target { name: "token", dictionary: tokens::TOKEN, run: tokens::token },
    Target { name: "issuer-token", dictionary: tokens::TOKEN, run: tokens::issuer_token },
    Target { name: "issuer-keys", dictionary: tokens::KEY_SET, run: tokens::issuer_keys },
    Target { name: "token-key", dictionary: certificates::PEM, run: tokens::token_key },
    Target {
        name: "authentication-configuration",
        dictionary: tokens::CONFIGURATION,
        run: tokens::authentication_configuration,
    },
    Target {
        name: "admission-configuration",
        dictionary: admission_configuration::CONFIGURATION,
        run: admission_configuration::admission_configuration,
    },
    Target {
        name: "encryption-configuration",
        dictionary: encryption::CONFIGURATION,
        run: encryption::configuration,
    },
    Target { name: "kms-envelope", dictionary: encryption::ENVELOPE, run: encryption::envelope },
    Target { name: "encrypted-value", dictionary: encryption::VALUE, run: encryption::value },
    Target { name: "etcd-value", dictionary: etcd::VALUE, run: etcd::value },
    Target { name: "export-path", dictionary: export::PATH, run: export::path },
];
