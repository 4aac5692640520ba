//! The metrics of authentication (AN-160, AN-161), of tokens of issuers, and of service account tokens (AN-78, AN-89).

use std::time::{Duration, SystemTime};

use portcullis_client::metrics::{Counter, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::Registry;

use super::caller::Caller;
use super::certificate::Peer;
use super::error::Unauthorized;
use crate::metrics::{ACCESS_SECONDS, Durations, ReloadMetrics, Timing, sha256_text};

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;
/// The buckets of `apiserver_client_certificate_expiration_seconds`: from expired to a year of twelve months.
const EXPIRATION_SECONDS: &[f64] = &[
    0.0,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
    DAY,
    2.0 * DAY,
    4.0 * DAY,
    7.0 * DAY,
    30.0 * DAY,
    90.0 * DAY,
    180.0 * DAY,
    360.0 * DAY,
];

/// The buckets of `apiserver_authentication_jwt_authenticator_latency_seconds`.
const ISSUER_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UserLabels {
    username: &'static str,
}

/// The metrics of one result.
#[derive(Clone)]
struct AuthenticationResult {
    attempts: Counter,
    time: Timing,
}

/// See the module. Clones share the metrics.
#[derive(Clone)]
pub struct AuthenticationMetrics {
    /// Success, error, failure.
    results: [AuthenticationResult; 3],
    users: Family<UserLabels, Counter>,
    expirations: Timing,
    pub(super) tokens: TokenMetrics,
    pub(super) issuers: IssuerMetrics,
    /// The metrics of the configuration file.
    pub(crate) file: ReloadMetrics,
}

/// The metrics of tokens of issuers. Clones share the metrics.
#[derive(Clone)]
pub(super) struct IssuerMetrics(Durations<IssuerLabels>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IssuerLabels {
    result: &'static str,
    jwt_issuer_hash: String,
}

impl IssuerMetrics {
    fn registered(registry: &mut Registry) -> Self {
        let latency: Durations<IssuerLabels> =
            Durations::new_with_constructor(|| Timing::new(ISSUER_SECONDS));
        registry.register(
            "apiserver_authentication_jwt_authenticator_latency_seconds",
            "Time to authenticate tokens of issuers, by result and issuer",
            latency.clone(),
        );
        Self(latency)
    }

    /// Records the time for a token of this issuer.
    pub(super) fn authenticated(&self, issuer: &str, is_success: bool, elapsed: Duration) {
        let result = if is_success { "success" } else { "failure" };
        let jwt_issuer_hash = sha256_text(&pki::sha256(issuer.as_bytes()));
        self.0.get_or_create(&IssuerLabels { result, jwt_issuer_hash }).observe(elapsed);
    }
}

impl AuthenticationMetrics {
    /// Metrics that this registry shows.
    pub fn registered(registry: &mut Registry) -> Self {
        let attempts = Family::<ResultLabels, Counter>::default();
        let times: Durations<ResultLabels> = Durations::new_with_constructor(|| Timing::new(ACCESS_SECONDS));
        let users = Family::<UserLabels, Counter>::default();
        let expirations = Timing::new(EXPIRATION_SECONDS);
        registry.register(
            "authentication_attempts",
            "Requests, by the result of their authentication",
            attempts.clone(),
        );
        registry.register(
            "authentication_duration_seconds",
            "Time to authenticate a request, by result",
            times.clone(),
        );
        registry.register(
            "authenticated_user_requests",
            "Authenticated requests, by user; only a few names are distinguished",
            users.clone(),
        );
        registry.register(
            "apiserver_client_certificate_expiration_seconds",
            "Time until the client certificates expire that requests show",
            expirations.clone(),
        );
        let results = ["success", "error", "failure"].map(|result| AuthenticationResult {
            attempts: attempts.get_or_create_owned(&ResultLabels { result }),
            time: times.get_or_create_owned(&ResultLabels { result }),
        });
        let file = ReloadMetrics::default();
        file.register(registry, "authentication");
        Self {
            results,
            users,
            expirations,
            tokens: TokenMetrics::registered(registry),
            issuers: IssuerMetrics::registered(registry),
            file,
        }
    }

    /// Counts the result of an authentication (AN-160).
    pub(super) fn authenticated(&self, outcome: &Result<Caller, Unauthorized>, elapsed: Duration) {
        let [success, error, failure] = &self.results;
        let result = match outcome {
            Ok(caller) => {
                let username = told_apart(&caller.user().name);
                self.users.get_or_create(&UserLabels { username }).inc();
                success
            }
            Err(cause) if cause.is_for_want_of_credentials() => failure,
            Err(_) => error,
        };
        result.attempts.inc();
        result.time.observe(elapsed);
    }

    /// Records how long the certificate of a client remains valid, before it is verified (AN-161).
    pub(super) fn shown(&self, peer: &Peer, now: SystemTime) {
        let Some(until) = peer.certificate_not_after() else { return };
        let seconds = match until.duration_since(now) {
            Ok(remaining) => remaining.as_secs_f64(),
            Err(passed) => -passed.duration().as_secs_f64(),
        };
        self.expirations.observe_seconds(seconds);
    }
}

/// The uses of service account tokens. Clones share the metrics.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenMetrics {
    /// Tokens that are stored in secrets.
    pub(super) legacy: Counter,
    /// Those of them whose secret was made for the account by itself (AN-78).
    pub(super) legacy_auto: Counter,
    /// The others (AN-78).
    pub(super) legacy_manual: Counter,
    /// Extended tokens that should have been renewed (AN-89).
    pub(super) stale: Counter,
    /// Extended tokens before that time.
    pub(super) valid: Counter,
}

impl TokenMetrics {
    fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        for (name, help, counter) in [
            (
                "legacy_tokens",
                "Requests with a token of a service account that is stored in a Secret",
                &metrics.legacy,
            ),
            (
                "legacy_auto_token_uses",
                "Those of them whose Secret was made for the account by itself",
                &metrics.legacy_auto,
            ),
            (
                "legacy_manual_token_uses",
                "Those of them whose Secret was made by somebody",
                &metrics.legacy_manual,
            ),
            (
                "stale_tokens",
                "Requests with an extended token of a service account that should have been renewed",
                &metrics.stale,
            ),
            (
                "valid_tokens",
                "Requests with an extended token of a service account before it should be renewed",
                &metrics.valid,
            ),
        ] {
            registry.register(format!("serviceaccount_{name}_total"), help, counter.clone());
        }
        metrics
    }
}

/// Returns a user name for labels. Users can choose their names, so only those are distinguished that kube-apiserver
/// distinguishes.
fn told_apart(name: &str) -> &'static str {
    match name {
        "admin" => "admin",
        "client" => "client",
        "kube_proxy" => "kube_proxy",
        "kubelet" => "kubelet",
        "system:serviceaccount:kube-system:default" => "system:serviceaccount:kube-system:default",
        name if name.contains('@') => "email_id",
        _ => "other",
    }
}
