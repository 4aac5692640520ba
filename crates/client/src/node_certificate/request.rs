//! The certificate signing requests of a node, and their outcomes (CS-104, CS-131 to CS-133, CS-140).

use std::net::IpAddr;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use portcullis_apimachinery::names::is_dns_subdomain;
use portcullis_pki::{Csr, KeyPair, Pair, Request, sha512_256};
use serde::Deserialize;
use serde_json::{Value, json};

/// The purpose of a node's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Authentication to the API server.
    Client,
    /// Serving the kubelet's API (CS-140).
    Serving,
}

impl Purpose {
    /// Returns the signer.
    pub fn signer(self) -> &'static str {
        match self {
            Self::Client => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::Serving => "kubernetes.io/kubelet-serving",
        }
    }

    /// Returns the prefix of its file names (CS-110).
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Client => "kubelet-client",
            Self::Serving => "kubelet-server",
        }
    }

    /// Returns the key usages for a key (CS-100, CS-131).
    pub fn usages(self, key: &KeyPair) -> &'static [&'static str] {
        match (self, key.is_rsa()) {
            (Self::Client, false) => &["digital signature", "client auth"],
            (Self::Client, true) => &["key encipherment", "digital signature", "client auth"],
            (Self::Serving, false) => &["digital signature", "server auth"],
            (Self::Serving, true) => &["key encipherment", "digital signature", "server auth"],
        }
    }
}

/// The node name is invalid (NB-4).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be the name of a node: it takes lower case letters, digits, '-' and '.', each part between dots \
     begins and ends with a letter or a digit, and all of it has at most 253 characters"
)]
pub struct NodeNameError(String);

/// Returns the contents of a node's client certificate (CS-131).
///
/// # Errors
/// The node name is invalid.
pub fn template(node_name: &str) -> Result<Request, NodeNameError> {
    if !is_dns_subdomain(node_name) {
        return Err(NodeNameError(node_name.to_owned()));
    }
    Ok(Request {
        common_name: format!("system:node:{node_name}"),
        organizations: vec!["system:nodes".to_owned()],
        ..Request::default()
    })
}

/// An address of a Node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Address {
    /// The type, such as `InternalIP`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The address.
    pub address: String,
}

/// Returns the contents of a node's serving certificate (CS-140). None while the node has no IP address.
///
/// # Errors
/// The node name is invalid.
pub fn serving_template(node_name: &str, addresses: &[Address]) -> Result<Option<Request>, NodeNameError> {
    let mut request = template(node_name)?;
    for Address { kind, address } in addresses {
        let ip = address.parse::<IpAddr>().ok();
        match (kind.as_str(), ip) {
            ("Hostname" | "InternalIP" | "ExternalIP", Some(ip)) => request.ip_addresses.push(ip),
            ("Hostname" | "InternalDNS" | "ExternalDNS", _) if !address.is_empty() => {
                request.dns_names.push(address.clone());
            }
            _ => {}
        }
    }
    request.dns_names.sort();
    request.dns_names.dedup();
    request.ip_addresses.sort();
    request.ip_addresses.dedup();
    Ok(Some(request).filter(|request| !request.ip_addresses.is_empty()))
}

/// Returns the name of a request, which is derived from its contents (CS-132).
pub fn name(public_key_der: &[u8], template: &Request, usages: &[&str]) -> String {
    let mut text = String::new();
    let mut write = |part: &[u8]| {
        URL_SAFE_NO_PAD.encode_string(part, &mut text);
        text.push('|');
    };
    write(public_key_der);
    write(template.common_name.as_bytes());
    template.organizations.iter().for_each(|organization| write(organization.as_bytes()));
    usages.iter().for_each(|usage| write(usage.as_bytes()));
    // In addition to CS-132, without effect on client certificates: a request for other addresses has another name.
    template.dns_names.iter().for_each(|name| write(name.as_bytes()));
    template.ip_addresses.iter().for_each(|ip| write(ip.to_string().as_bytes()));
    format!("node-csr-{}", URL_SAFE_NO_PAD.encode(sha512_256(text.as_bytes())))
}

/// Returns the object to create.
pub fn object(
    name: &str,
    signer: &str,
    pem: &str,
    usages: &[&str],
    expiration_seconds: Option<i32>,
) -> Value {
    let mut spec = json!({
        "request": STANDARD.encode(pem),
        "signerName": signer,
        "usages": usages,
    });
    if let (Some(seconds), Some(spec)) = (expiration_seconds, spec.as_object_mut()) {
        spec.insert("expirationSeconds".to_owned(), json!(seconds));
    }
    json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// The relevant fields of a request on the server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Stored {
    /// The metadata.
    pub metadata: Metadata,
    spec: Spec,
    status: Status,
}

/// The relevant metadata of an object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: String,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    request: String,
    signer_name: String,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    certificate: Option<String>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    message: String,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Pending. `is_approved`: only the signature is missing.
    Pending {
        /// Whether the request is approved.
        is_approved: bool,
    },
    /// The request was denied, or the signer failed.
    Refused {
        /// `Denied` or `Failed`.
        how: String,
        /// The message for people.
        why: String,
    },
    /// The certificates in PEM.
    Issued(Vec<u8>),
}

impl Stored {
    /// Returns the outcome (CS-104).
    pub fn answer(&self) -> Answer {
        for how in ["Denied", "Failed"] {
            if let Some(condition) = self.status.conditions.iter().find(|condition| condition.kind == how) {
                let said: Vec<&str> =
                    [&*condition.reason, &*condition.message].into_iter().filter(|t| !t.is_empty()).collect();
                return Answer::Refused { how: how.to_owned(), why: said.join(": ") };
            }
        }
        match self.status.certificate.as_deref().map(|text| STANDARD.decode(text)) {
            Some(Ok(pem)) if !pem.is_empty() => Answer::Issued(pem),
            _ => Answer::Pending {
                is_approved: self.status.conditions.iter().any(|condition| condition.kind == "Approved"),
            },
        }
    }

    /// Checks that this is the request that we would create, and not one that somebody else has created under its name
    /// (CS-133).
    ///
    /// # Errors
    /// A description of the difference.
    pub fn check(&self, signer: &str, template: &Request, key: &KeyPair) -> Result<(), String> {
        if self.spec.signer_name != signer {
            return Err(format!("it is for the signer {:?}", self.spec.signer_name));
        }
        let pem = STANDARD.decode(&self.spec.request).map_err(|_| "it contains no request".to_owned())?;
        let request = Csr::from_pem(&pem).map_err(|e| e.to_string())?;
        if request.public_key_der() != key.public_der() {
            return Err("it is for another key".to_owned());
        }
        let subject = request.subject();
        let is_same = subject.common_name().is_ok_and(|name| name == template.common_name)
            && subject.organizations().is_ok_and(|o| o == template.organizations);
        if !is_same {
            return Err("it is for another subject".to_owned());
        }
        let names = request.names();
        let has_same_names = names.dns == template.dns_names && names.ip == template.ip_addresses;
        if has_same_names { Ok(()) } else { Err("it is for other names or addresses".to_owned()) }
    }
}

/// Checks the issued certificate and combines it with our key (CS-102, CS-133).
///
/// # Errors
/// The certificate does not match our key, differs from the request, or has expired.
pub fn issued(pem: &[u8], key: &KeyPair, template: &Request, now: SystemTime) -> Result<Pair, IssuedError> {
    let pair = Pair::from_pem(pem, key.to_pem().as_bytes()).map_err(|e| IssuedError::Other(e.to_string()))?;
    if !pair.satisfies(template) || pair.organizations() != template.organizations {
        return Err(IssuedError::Other(format!(
            "it is for {:?} in {:?}",
            pair.common_name(),
            pair.organizations()
        )));
    }
    if !pair.is_unexpired(now) {
        return Err(IssuedError::Expired);
    }
    Ok(pair)
}

/// The certificate is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuedError {
    /// It has expired.
    #[error("it has expired")]
    Expired,
    /// It differs from the request.
    #[error("{0}")]
    Other(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nb_4_names_of_nodes_are_those_of_dns() {
        let long = format!("{}.b", "a".repeat(251));
        for good in ["a", "node-1", "ip-10-0-0-1.eu.example", "1", &long] {
            assert!(template(good).is_ok(), "{good}");
        }
        let long = "a".repeat(254);
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".", "a.", "ä", "a b", "a/b", "a\n", &long] {
            assert!(template(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn cs_132_the_name_follows_from_key_subject_and_usages() {
        // Computed with: printf 'a2V5|c3lzdGVtOm5vZGU6YQ|c3lzdGVtOm5vZGVz|ZGlnaXRhbCBzaWduYXR1cmU|Y2xpZW50IGF1dGg|' |
        //   openssl dgst -sha512-256 -binary | basenc --base64url
        let usages = ["digital signature", "client auth"];
        let of = |name_of_node: &str| name(b"key", &template(name_of_node).unwrap(), &usages);
        assert_eq!(of("a"), "node-csr-LW0LVgSwdautjTGAdsQsOa5R7qh0S_OcteJFLCr3UlQ");
        assert_ne!(of("a"), of("b"));
    }

    #[test]
    fn cs_140_a_serving_certificate_is_for_the_addresses_of_the_node() {
        let of = |addresses: &[(&str, &str)]| {
            let read =
                |(kind, address): &(&str, &str)| Address { kind: (*kind).into(), address: (*address).into() };
            serving_template("a", &addresses.iter().map(read).collect::<Vec<_>>()).unwrap()
        };
        let all = of(&[
            ("Hostname", "host"),
            ("InternalDNS", "in.example"),
            ("ExternalDNS", "host"),
            ("InternalIP", "10.0.0.2"),
            ("ExternalIP", "10.0.0.1"),
            ("InternalIP", "fd00::1"),
            ("ExternalIP", "10.0.0.2"),
            ("InternalIP", "none"),
            ("Other", "10.0.0.9"),
        ])
        .unwrap();
        assert_eq!(all.dns_names, ["host", "in.example"]);
        let ips: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2", "fd00::1"].map(|ip| ip.parse().unwrap()).to_vec();
        assert_eq!(all.ip_addresses, ips);
        assert_eq!(
            (all.common_name.as_str(), all.organizations.as_slice()),
            ("system:node:a", &["system:nodes".to_owned()][..])
        );
        assert_eq!(of(&[("Hostname", "10.0.0.1")]).unwrap().ip_addresses.len(), 1);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("Hostname", "host"), ("InternalDNS", "in.example")]), None);
    }

    #[test]
    fn cs_104_an_answer_is_refused_before_it_is_issued() {
        let read =
            |status: Value| serde_json::from_value::<Stored>(json!({"status": status})).unwrap().answer();
        let certificate = STANDARD.encode("pem");
        let condition = |kind: &str| json!([{"type": kind, "reason": "R", "message": "m"}]);
        assert_eq!(read(json!({})), Answer::Pending { is_approved: false });
        assert_eq!(read(json!({"conditions": condition("Approved")})), Answer::Pending { is_approved: true });
        assert_eq!(read(json!({"certificate": certificate})), Answer::Issued(b"pem".to_vec()));
        for how in ["Denied", "Failed"] {
            let refused = read(json!({"certificate": certificate, "conditions": condition(how)}));
            assert_eq!(refused, Answer::Refused { how: how.into(), why: "R: m".into() });
        }
    }
}
