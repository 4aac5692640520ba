//! Audit policies: no mutated policy logs the body of a secret.

use portcullis_policy::User;
use portcullis_policy::request_info::RequestInfo;
use portcullis_server::audit::{Level, Policy, PolicyError};

pub(super) const POLICY: &[&str] = &[
    "apiVersion: audit.k8s.io/v1\n",
    "kind: Policy\n",
    "rules:\n",
    "- level: RequestResponse\n",
    "- level: Metadata\n",
    "  users: [a]\n",
    "  userGroups: [system:nodes]\n",
    "  verbs: [get]\n",
    "  resources:\n",
    "  - group: ''\n",
    "    resources: ['*', pods, pods/*, '*/scale']\n",
    "    resourceNames: [a]\n",
    "  namespaces: ['']\n",
    "  nonResourceURLs: ['/healthz*', '*']\n",
    "  omitStages: [RequestReceived]\n",
    "omitManagedFields: true\n",
    "null",
    "&a ",
    "*a",
    "{",
    "}",
];

pub(super) fn policy(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let policy = match Policy::read(text) {
        Ok(policy) => policy,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "an error says what is wrong");
            if let PolicyError::Invalid(faults) = error {
                assert!(!faults.is_empty(), "what is refused has a fault");
            }
            return false;
        }
    };
    let user = User::new("a", ["system:nodes"]);
    for (method, target) in [
        ("GET", "/api/v1/namespaces/d/secrets/s"),
        ("POST", "/api/v1/namespaces/d/serviceaccounts/s/token"),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
    ] {
        let info = RequestInfo::parse(method, target).expect("a request");
        for user in [None, Some(&user)] {
            let level = policy.wanted(user, &info).level;
            let is_named = text.contains(info.resource());
            // The word may also be written with escapes.
            assert!(level <= Level::Metadata || is_named || text.contains('\\'), "{level:?} of {target}");
        }
    }
    true
}
