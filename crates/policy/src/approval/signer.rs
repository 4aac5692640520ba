//! The signers of Kubernetes and what each asks of a request (CS-50 to CS-54, section 6; NR-106, NR-107).

use std::collections::BTreeSet;
use std::fmt;

use crate::identity::{NODE_USER_PREFIX, NODES_GROUP};

/// A signer of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Signer {
    /// `kubernetes.io/kube-apiserver-client`: clients of the API server.
    KubeApiserverClient,
    /// `kubernetes.io/kube-apiserver-client-kubelet`: kubelets as clients of the API server.
    KubeApiserverClientKubelet,
    /// `kubernetes.io/kubelet-serving`: kubelets as servers.
    KubeletServing,
    /// `kubernetes.io/legacy-unknown`: requests from before signers had names.
    LegacyUnknown,
}

impl Signer {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::KubeletServing,
        Self::KubeApiserverClientKubelet,
        Self::KubeApiserverClient,
        Self::LegacyUnknown,
    ];

    /// Returns the signer of this name; `None` if it is not one of Kubernetes.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signer| signer.name() == name)
    }

    /// The name, as in `spec.signerName`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KubeApiserverClient => "kubernetes.io/kube-apiserver-client",
            Self::KubeApiserverClientKubelet => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::KubeletServing => "kubernetes.io/kubelet-serving",
            Self::LegacyUnknown => "kubernetes.io/legacy-unknown",
        }
    }

    /// Checks that the signer would sign such a request.
    ///
    /// # Errors
    /// The first violation, in the order of CS-52.
    pub fn check<'a>(self, asked: &Asked<'a>) -> Result<(), Violation<'a>> {
        match self {
            Self::KubeApiserverClient => check_client(asked),
            Self::KubeApiserverClientKubelet => check_kubelet_client(asked),
            Self::KubeletServing => check_kubelet_serving(asked),
            Self::LegacyUnknown => Ok(()),
        }
    }
}

/// The content of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// The common name, the last if there are several. Empty if there is none.
    pub common_name: &'a str,
    /// The organizations, in order.
    pub organizations: &'a [&'a str],
    /// The number of DNS names.
    pub dns_names: usize,
    /// The number of e-mail addresses.
    pub email_addresses: usize,
    /// The number of IP addresses.
    pub ip_addresses: usize,
    /// The number of URIs.
    pub uris: usize,
    /// `spec.usages`.
    pub usages: &'a [&'a str],
}

/// A reason why a signer refuses to sign. Its text is that of Kubernetes (CS-52, CS-54, CS-73).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation<'a> {
    /// The common name is not that of a node.
    CommonName,
    /// DNS names.
    DnsNames,
    /// E-mail addresses.
    EmailAddresses,
    /// IP addresses.
    IpAddresses,
    /// A usage that client certificates must not have.
    InvalidUsage(&'a str),
    /// The usages lack `client auth`.
    MissingClientAuth,
    /// Neither a DNS name nor an IP address.
    NoDnsNameOrIpAddress,
    /// The organizations are not `system:nodes` alone.
    Organizations,
    /// URIs.
    Uris,
    /// The usages are not those of a kubelet, which are given.
    Usages(KubeletUsages),
}

/// The usages of a kubelet certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeletUsages {
    /// As a client.
    Client,
    /// As a server.
    Serving,
}

const DIGITAL_SIGNATURE: &str = "digital signature";
const KEY_ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

impl KubeletUsages {
    /// The required usages, without the optional one.
    const fn required(self) -> [&'static str; 2] {
        match self {
            Self::Client => [DIGITAL_SIGNATURE, CLIENT_AUTH],
            Self::Serving => [DIGITAL_SIGNATURE, SERVER_AUTH],
        }
    }

    /// CS-50: as sets. Without or with `key encipherment`.
    pub(super) fn are<U: AsRef<str>>(self, usages: &[U]) -> bool {
        let mut found: BTreeSet<&str> = usages.iter().map(AsRef::as_ref).collect();
        found.remove(KEY_ENCIPHERMENT);
        found == BTreeSet::from(self.required())
    }
}

impl fmt::Display for Violation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CommonName => "subject common name does not begin with system:node:",
            Self::DnsNames => "DNS subjectAltNames are not allowed",
            Self::EmailAddresses => "Email subjectAltNames are not allowed",
            Self::IpAddresses => "IP subjectAltNames are not allowed",
            Self::InvalidUsage(usage) => return write!(f, "invalid usage for client certificate: {usage}"),
            Self::MissingClientAuth => "missing required usage for client certificate: client auth",
            Self::NoDnsNameOrIpAddress => "DNS or IP subjectAltName is required",
            Self::Organizations => "subject organization is not system:nodes",
            Self::Uris => "URI subjectAltNames are not allowed",
            Self::Usages(KubeletUsages::Client) => {
                "usages did not match [client auth digital signature key encipherment]"
            }
            Self::Usages(KubeletUsages::Serving) => {
                "usages did not match [digital signature key encipherment server auth]"
            }
        })
    }
}

impl std::error::Error for Violation<'_> {}

fn refuse_if(is_wrong: bool, violation: Violation<'_>) -> Result<(), Violation<'_>> {
    if is_wrong { Err(violation) } else { Ok(()) }
}

fn check_client<'a>(asked: &Asked<'a>) -> Result<(), Violation<'a>> {
    let allowed = [DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH];
    match asked.usages.iter().find(|usage| !allowed.contains(usage)) {
        Some(usage) => Err(Violation::InvalidUsage(usage)),
        None => refuse_if(!asked.usages.contains(&CLIENT_AUTH), Violation::MissingClientAuth),
    }
}

fn check_kubelet_client<'a>(asked: &Asked<'a>) -> Result<(), Violation<'a>> {
    refuse_if(asked.organizations != [NODES_GROUP], Violation::Organizations)?;
    refuse_if(asked.dns_names > 0, Violation::DnsNames)?;
    refuse_if(asked.email_addresses > 0, Violation::EmailAddresses)?;
    refuse_if(asked.ip_addresses > 0, Violation::IpAddresses)?;
    refuse_if(asked.uris > 0, Violation::Uris)?;
    refuse_if(!asked.common_name.starts_with(NODE_USER_PREFIX), Violation::CommonName)?;
    let usages = KubeletUsages::Client;
    refuse_if(!usages.are(asked.usages), Violation::Usages(usages))
}

fn check_kubelet_serving<'a>(asked: &Asked<'a>) -> Result<(), Violation<'a>> {
    refuse_if(asked.organizations != [NODES_GROUP], Violation::Organizations)?;
    refuse_if(asked.dns_names == 0 && asked.ip_addresses == 0, Violation::NoDnsNameOrIpAddress)?;
    refuse_if(asked.email_addresses > 0, Violation::EmailAddresses)?;
    refuse_if(asked.uris > 0, Violation::Uris)?;
    let usages = KubeletUsages::Serving;
    refuse_if(!usages.are(asked.usages), Violation::Usages(usages))?;
    refuse_if(!asked.common_name.starts_with(NODE_USER_PREFIX), Violation::CommonName)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Asked<'static> = Asked {
        common_name: "system:node:n1",
        organizations: &[NODES_GROUP],
        dns_names: 0,
        email_addresses: 0,
        ip_addresses: 0,
        uris: 0,
        usages: &[DIGITAL_SIGNATURE, CLIENT_AUTH],
    };

    #[test]
    fn the_first_violation_in_order_counts_cs_52() {
        let signer = Signer::KubeApiserverClientKubelet;
        let text = |asked: Asked<'static>| signer.check(&asked).map_err(|violation| violation.to_string());
        let all = Asked {
            common_name: "n1",
            organizations: &[NODES_GROUP, NODES_GROUP],
            dns_names: 1,
            email_addresses: 1,
            ip_addresses: 1,
            uris: 1,
            usages: &[CLIENT_AUTH],
        };
        let organizations = Asked { organizations: NODE.organizations, ..all };
        let dns = Asked { dns_names: 0, ..organizations };
        let email = Asked { email_addresses: 0, ..dns };
        let ip = Asked { ip_addresses: 0, ..email };
        let uri = Asked { uris: 0, ..ip };
        let name = Asked { common_name: "system:node:", ..uri };
        for (asked, expected) in [
            (all, "subject organization is not system:nodes"),
            (organizations, "DNS subjectAltNames are not allowed"),
            (dns, "Email subjectAltNames are not allowed"),
            (email, "IP subjectAltNames are not allowed"),
            (ip, "URI subjectAltNames are not allowed"),
            (uri, "subject common name does not begin with system:node:"),
            (name, "usages did not match [client auth digital signature key encipherment]"),
        ] {
            assert_eq!(text(asked), Err(expected.to_owned()));
        }
        // CS-51: a node without a name passes.
        assert_eq!(text(Asked { usages: NODE.usages, ..name }), Ok(()));
    }

    #[test]
    fn usages_are_compared_as_sets_cs_50() {
        let check = |usages: &'static [&'static str]| {
            Signer::KubeApiserverClientKubelet.check(&Asked { usages, ..NODE }).is_ok()
        };
        assert!(check(&[CLIENT_AUTH, KEY_ENCIPHERMENT, DIGITAL_SIGNATURE]));
        assert!(check(&[CLIENT_AUTH, CLIENT_AUTH, DIGITAL_SIGNATURE]));
        assert!(!check(&[CLIENT_AUTH]));
        assert!(!check(&[CLIENT_AUTH, DIGITAL_SIGNATURE, SERVER_AUTH]));
        assert!(!check(&[]));
    }

    #[test]
    fn clients_may_have_three_usages_and_must_have_one_cs_73() {
        let text = |usages: &'static [&'static str]| {
            let asked = Asked { usages, ..Asked::default() };
            Signer::KubeApiserverClient.check(&asked).map_err(|violation| violation.to_string())
        };
        assert_eq!(text(&[CLIENT_AUTH, KEY_ENCIPHERMENT, DIGITAL_SIGNATURE]), Ok(()));
        assert_eq!(text(&[SERVER_AUTH]), Err("invalid usage for client certificate: server auth".to_owned()));
        assert_eq!(
            text(&[KEY_ENCIPHERMENT]),
            Err("missing required usage for client certificate: client auth".to_owned())
        );
        assert_eq!(Signer::named("kubernetes.io/kubelet-serving"), Some(Signer::KubeletServing));
        assert_eq!(Signer::named("example.com/kubelet-serving"), None);
    }
}
