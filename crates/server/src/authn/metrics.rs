//! What is counted of who asks.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::caller::Caller;
use super::error::Unauthorized;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UserLabels {
    username: &'static str,
}

/// See the module.
pub struct AuthenticationMetrics {
    /// Success, error, failure.
    attempts: [Counter; 3],
    users: Family<UserLabels, Counter>,
}

impl AuthenticationMetrics {
    /// Metrics that this registry shows.
    pub fn registered(registry: &mut Registry) -> Self {
        let attempts = Family::<ResultLabels, Counter>::default();
        let users = Family::<UserLabels, Counter>::default();
        registry.register("authentication_attempts", "Authentication attempts, by result", attempts.clone());
        registry.register(
            "authenticated_user_requests",
            "Authenticated requests, by user name (only a few names are distinguished)",
            users.clone(),
        );
        let attempts = ["success", "error", "failure"]
            .map(|result| attempts.get_or_create_owned(&ResultLabels { result }));
        Self { attempts, users }
    }

    /// Counts the result of an authentication.
    pub(crate) fn authenticated(&self, result: &Result<Caller, Unauthorized>) {
        let [success, error, failure] = &self.attempts;
        match result {
            Ok(caller) => {
                success.inc();
                let username = told_apart(&caller.user().name);
                self.users.get_or_create(&UserLabels { username }).inc();
            }
            Err(cause) if cause.is_for_want_of_credentials() => drop(failure.inc()),
            Err(_) => drop(error.inc()),
        }
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
