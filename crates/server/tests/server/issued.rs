//! What kube-controller-manager 1.36 issued for each request, and what the server issues for it: every field of
//! every certificate but its serial number and the identifiers of keys, which differ from run to run.
//!
//! The authorities come from openssl, which also checks every signature; the certificates are taken apart by the library

//! that does not make them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Setup, Started, start_with};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_server::signing::{Pair, Signing};
use portcullis_store::{Expect, Store as _, Value as Stored, Write};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::wait;
use serde_json::{Value, json};
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, DecodePem, Encode, Tag, Tagged};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAltName,
    SubjectKeyIdentifier,
};
use x509_cert::request::CertReq;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// How long is waited for what must not happen.
const NOTHING_HAPPENS: Duration = Duration::from_secs(1);

fn openssl(folder: &Path, words: &[&str]) {
    Finished::of(tool::command("openssl").args(words).current_dir(folder)).ok();
}

/// The end of an authority that has this much left, as openssl wants it.
fn end(remaining: &str) -> String {
    let mut words = remaining.split(' ');
    let is_over = words.clone().next() == Some("expired");
    if is_over {
        words.next();
    }
    let count: u64 = words.next().unwrap().parse().unwrap();
    let unit = match words.next().unwrap().trim_end_matches('s') {
        "minute" => 60,
        "hour" => 3600,
        "day" => 86_400,
        "year" => 365 * 86_400,
        unit => panic!("{unit}"),
    };
    let span = Duration::from_secs(count * unit);
    let now = SystemTime::now();
    let end = jiff::Timestamp::try_from(if is_over { now - span } else { now + span }).unwrap();
    end.strftime("%Y%m%d%H%M%SZ").to_string()
}

/// Makes `ca.crt` and `ca.key` as the recording says that they were.
fn authority(folder: &Path, config: &Value) {
    let note = config["note"].as_str().unwrap_or_default();
    let key = match config["caKey"].as_str().unwrap() {
        "Ed25519" => vec!["-algorithm", "ed25519"],
        "P-256" => vec!["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
        "P-384" => vec!["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
        "P-521" => vec!["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"],
        "RSA-2048" => vec!["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
        "RSA-4096" => vec!["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:4096"],
        kind => panic!("{kind}"),
    };
    let identifier = if note.contains("without subject key id") {
        "subjectKeyIdentifier=none"
    } else {
        "subjectKeyIdentifier=hash\nkeyUsage=critical,digitalSignature,keyEncipherment,keyCertSign"
    };
    let length = if note.contains("path length 0") { ",pathlen:0" } else { "" };
    let digest = if note.contains("SHA-512") { "sha512" } else { "default" };
    let subject = if note.contains("C, O, O, CN") { "/C=DE/O=one/O=two/CN=ca" } else { "/CN=ca" };
    let settings = format!(
        "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\npolicy=any\ndefault_md={digest}\n\
         x509_extensions=ext\npreserve=yes\n[any]\ncountryName=optional\norganizationName=optional\ncommonName=optional\n\
         [req]\ndistinguished_name=dn\n[dn]\n[ext]\nbasicConstraints=critical,CA:true{length}\n{identifier}\n"
    );
    std::fs::write(folder.join("ca.cnf"), settings).unwrap();
    std::fs::write(folder.join("index.txt"), "").unwrap();
    std::fs::write(folder.join("serial"), "01\n").unwrap();
    openssl(folder, &[&["genpkey", "-out", "ca.key"], key.as_slice()].concat());
    openssl(
        folder,
        &["req", "-new", "-config", "ca.cnf", "-key", "ca.key", "-subj", subject, "-out", "ca.csr"],
    );
    let end = end(config["caRemaining"].as_str().unwrap());
    let dates = ["-startdate", "20200101000000Z", "-enddate", &end];
    let sign =
        ["ca", "-batch", "-selfsign", "-notext", "-config", "ca.cnf", "-in", "ca.csr", "-keyfile", "ca.key"];
    openssl(folder, &[sign.as_slice(), &dates, &["-out", "ca.crt"]].concat());
}

/// A request as the API has it.
fn object(case: &Value) -> Value {
    let mut spec = json!({"request": STANDARD.encode(case["csr"].as_str().unwrap()),
        "signerName": case["signerName"], "usages": case["usages"]});
    if !case["expirationSeconds"].is_null() {
        spec["expirationSeconds"] = case["expirationSeconds"].clone();
    }
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": case["id"]}, "spec": spec})
}

fn approval() -> Value {
    json!([{"type": "Approved", "status": "True", "reason": "Test", "message": "by test"}])
}

/// Requests of a signer that the API refuses: they were stored by an older server, approved.
fn is_stored(case: &Value) -> bool {
    case["create"]["code"].is_null()
}

struct Server {
    admin: Client,
    folder: Scratch,
    started: Started,
}

impl Server {
    /// A server with this authority.
    fn start(config: &Value) -> Self {
        let folder = Scratch::new();
        authority(folder.path(), config);
        let pair = Pair { certificate: folder.path().join("ca.crt"), key: folder.path().join("ca.key") };
        let longest = Duration::from_secs(match config["clusterSigningDuration"].as_str().unwrap() {
            "5m" => 5 * 60,
            "30m" => 30 * 60,
            "1h" => 3600,
            "7h59m" => 8 * 3600 - 60,
            "8h" => 8 * 3600,
            "8760h" => 8760 * 3600,
            other => panic!("{other}"),
        });
        let signing = Some(Signing::by_one_pair(pair, longest).unwrap());
        let started = start_with(Setup { is_cluster: true, signing, ..Setup::default() });
        let admin = Client::new(started.address, &Identity::admin(&started.dir));
        Self { admin, folder, started }
    }

    /// Stores a request as an older server did, approved.
    fn store(&self, case: &Value) {
        let mut object = object(case);
        object["status"] = json!({"conditions": approval()});
        object["metadata"]["resourceVersion"] = "".into();
        object["metadata"]["uid"] = case["id"].clone();
        let bytes = object.to_string();
        let revision_at = bytes.find(r#""resourceVersion":""#).map(|at| at + r#""resourceVersion":""#.len());
        let value = Some(Stored { bytes: bytes.into(), revision_at, relies_on: None });
        let key = format!("/certificates.k8s.io/certificatesigningrequests/{}", case["id"].as_str().unwrap());
        let write = Write { key: key.into(), expect: Expect::Absent, value };
        let backend = self.started.app.backend();
        self.started.runtime.as_ref().unwrap().block_on(backend.commit(vec![write])).unwrap();
    }

    /// Creates and approves; true if there is something to wait for.
    fn create(&mut self, case: &Value) -> bool {
        if is_stored(case) {
            self.store(case);
            return true;
        }
        let id = case["id"].as_str().unwrap();
        let answer = self.admin.ask("POST", REQUESTS, Some(&object(case))).unwrap();
        let wanted = &case["create"];
        assert_eq!(json!(answer.code), wanted["code"], "{id}: {}", String::from_utf8_lossy(&answer.body));
        let mut body = answer.json();
        if answer.code != 201 {
            assert_eq!(body["reason"], wanted["reason"], "{id}");
            let causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
            let fields: Vec<&Value> = causes.iter().map(|cause| &cause["field"]).collect();
            assert_eq!(json!(fields), wanted["fields"], "{id}");
            return false;
        }
        // Requests of kubelets are approved already, or will be at any time.
        body["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        body["status"] = json!({"conditions": approval()});
        let path = format!("{REQUESTS}/{id}/approval");
        assert_eq!(self.admin.ask("PUT", &path, Some(&body)).unwrap().code, 200, "{id}");
        true
    }

    /// The request when its outcome is there.
    fn settled(&mut self, case: &Value) -> Value {
        let start = Instant::now();
        let must_stay = case["outcome"].as_str().unwrap().starts_with("approved, not issued");
        let path = format!("{REQUESTS}/{}", case["id"].as_str().unwrap());
        wait::until_ok(&path, || {
            let object = self.admin.ask("GET", &path, None).unwrap().json();
            let status = &object["status"];
            let is_settled =
                !status["certificate"].is_null() || status["conditions"].as_array().unwrap().len() > 1;
            let is_over = is_settled || must_stay && start.elapsed() > NOTHING_HAPPENS;
            if is_over { Ok(object) } else { Err(object) }
        })
    }

    fn check(&mut self, case: &Value) {
        let id = case["id"].as_str().unwrap();
        let object = self.settled(case);
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let types: Vec<&Value> = conditions.iter().map(|condition| &condition["type"]).collect();
        assert_eq!(json!(types), case["conditions"], "{id}");
        if let Some(failed) = case["failed"].as_object() {
            for (name, value) in failed {
                assert_eq!(&conditions[1][name], value, "{id}: {name}");
            }
        }
        let pem = object["status"]["certificate"].as_str();
        assert_eq!(pem.is_some(), case["outcome"] == "issued", "{id}");
        let Some(pem) = pem else { return };
        let pem = STANDARD.decode(pem).unwrap();
        let folder = self.folder.path();
        let authority = Certificate::from_pem(std::fs::read(folder.join("ca.crt")).unwrap()).unwrap();
        let described = describe(&pem, case, &authority, conditions[0]["lastUpdateTime"].as_str());
        let mut wanted = case["certificate"].clone();
        let bits = wanted["serial"].take();
        if is_stored(case) {
            // Nobody knows when these were approved.
            wanted["notBeforeOffsetSeconds"] = Value::Null;
        }
        assert_eq!(described, wanted, "{id}");
        let serial =
            Certificate::from_pem(&pem).unwrap().tbs_certificate().serial_number().as_bytes().to_vec();
        let leading = serial[0].leading_zeros() as u64;
        let length = serial.len() as u64 * 8 - leading;
        assert!(serial[0] < 0x80, "{id}: positive");
        assert!(
            length <= bits["maxBits"].as_u64().unwrap() && length >= bits["minBits"].as_u64().unwrap(),
            "{id}"
        );
        std::fs::write(folder.join("leaf.crt"), &pem).unwrap();
        openssl(
            folder,
            &[
                "verify",
                "-no_check_time",
                "-auth_level",
                "0",
                "-CAfile",
                "ca.crt",
                "-partial_chain",
                "leaf.crt",
            ],
        );
    }
}

fn seconds(time: &x509_cert::time::Time) -> i64 {
    i64::try_from(time.to_unix_duration().as_secs()).unwrap()
}

fn extension<'c, T: Decode<'c>>(all: &'c [Extension], oid: &str) -> Option<(bool, T)> {
    let found = all.iter().find(|extension| extension.extn_id.to_string() == oid)?;
    Some((found.critical, T::from_der(found.extn_value.as_bytes()).ok().unwrap()))
}

/// A certificate in the words of the recording.
fn describe(pem: &[u8], case: &Value, authority: &Certificate, approved: Option<&str>) -> Value {
    let text = std::str::from_utf8(pem).unwrap();
    let blocks: Vec<&str> =
        text.lines().filter_map(|l| l.strip_prefix("-----BEGIN ")?.strip_suffix("-----")).collect();
    let certificate = Certificate::from_pem(pem).unwrap();
    let tbs = certificate.tbs_certificate();
    let request = case["csr"].as_str().unwrap();
    // Whatever follows the first block is not asked for.
    let (first, _) = request.split_once("-----END").unwrap();
    let (_, first) = first.split_once("-----BEGIN").unwrap();
    let first = format!("-----BEGIN{first}-----END CERTIFICATE REQUEST-----\n");
    let request = CertReq::from_pem(first).unwrap();
    let subject: Vec<Value> = tbs
        .subject()
        .iter_rdn()
        .map(|rdn| {
            rdn.iter()
                .map(|part| {
                    let kind = match part.value.tag() {
                        Tag::PrintableString => "PrintableString",
                        Tag::Utf8String => "UTF8String",
                        tag => panic!("{tag}"),
                    };
                    json!([part.oid.to_string(), kind, std::str::from_utf8(part.value.value()).unwrap()])
                })
                .collect()
        })
        .collect();
    let (start, end) = (seconds(&tbs.validity().not_before), seconds(&tbs.validity().not_after));
    let is_authoritys_end = end == seconds(&authority.tbs_certificate().validity().not_after);
    let approved = approved.map(|at| at.parse::<jiff::Timestamp>().unwrap().as_second());
    let extensions: Vec<Extension> = tbs.extensions().cloned().unwrap_or_default().into_iter().collect();
    let authority_extensions: Vec<Extension> =
        authority.tbs_certificate().extensions().cloned().unwrap_or_default().into_iter().collect();
    let own_identifier =
        extension::<SubjectKeyIdentifier>(&authority_extensions, "2.5.29.14").map(|(_, id)| id.0);
    let named = extension::<AuthorityKeyIdentifier>(&extensions, "2.5.29.35").map(|(critical, id)| {
        let mut others = Vec::new();
        others.extend(id.authority_cert_issuer.map(|_| "issuer"));
        others.extend(id.authority_cert_serial_number.map(|_| "serial"));
        json!({"critical": critical, "keyIdEqualsCASubjectKeyId": id.key_identifier == own_identifier,
            "otherFields": others})
    });
    let names = extension::<SubjectAltName>(&extensions, "2.5.29.17");
    let has_names = names.is_some();
    let asked: Vec<ObjectIdentifier> = requested(&request);
    let (copied, not): (Vec<_>, Vec<_>) =
        asked.iter().partition(|oid| oid.to_string() == "2.5.29.17" && has_names);
    let texts = |oids: &[&ObjectIdentifier]| oids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let key_usage = extension::<KeyUsage>(&extensions, "2.5.29.15").map(|(critical, usage)| {
        let usages: Vec<&str> = [
            (usage.digital_signature(), "digitalSignature"),
            (usage.non_repudiation(), "contentCommitment"),
            (usage.key_encipherment(), "keyEncipherment"),
            (usage.data_encipherment(), "dataEncipherment"),
            (usage.key_agreement(), "keyAgreement"),
            (usage.key_cert_sign(), "keyCertSign"),
            (usage.crl_sign(), "cRLSign"),
            (usage.encipher_only(), "encipherOnly"),
            (usage.decipher_only(), "decipherOnly"),
        ]
        .into_iter()
        .filter_map(|(is_set, name)| is_set.then_some(name))
        .collect();
        json!({"critical": critical, "usages": usages})
    });
    let constraints = extensions.iter().find(|extension| extension.extn_id.to_string() == "2.5.29.19").map(|found| {
        let parsed = BasicConstraints::from_der(found.extn_value.as_bytes()).unwrap();
        let hex: String = found.extn_value.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        json!({"critical": found.critical, "ca": parsed.ca, "pathLen": parsed.path_len_constraint, "der": hex})
    });
    json!({
        "version": 3,
        "serial": null,
        "subject": subject,
        "issuerEqualsCASubject": tbs.issuer() == authority.tbs_certificate().subject(),
        "publicKeyEqualsRequest":
            tbs.subject_public_key_info().to_der().unwrap() == request.info.public_key.to_der().unwrap(),
        "signatureAlgorithm": certificate.signature_algorithm().oid.to_string(),
        "notBeforeOffsetSeconds": approved
            .filter(|_| !is_stored(case))
            .map(|approved| (start - approved + 5).div_euclid(10) * 10),
        "validitySeconds": (!is_authoritys_end).then_some(end - start),
        "notAfterEqualsCANotAfter": is_authoritys_end,
        "pemBlocks": blocks,
        "extensionsInOrder": extensions.iter().map(|e| e.extn_id.to_string()).collect::<Vec<_>>(),
        // openssl says so, or the test ends.
        "signatureVerifies": true,
        "keyUsage": key_usage,
        "extendedKeyUsage": extension::<ExtendedKeyUsage>(&extensions, "2.5.29.37").map(|(critical, usage)| {
            json!({"critical": critical, "oids": usage.0.iter().map(ToString::to_string).collect::<Vec<_>>()})
        }),
        "basicConstraints": constraints,
        "subjectAltName": names.map(|(critical, names)| {
            json!({"critical": critical, "names": names.0.iter().map(name).collect::<Vec<_>>()})
        }),
        "subjectKeyIdentifier": extensions.iter().any(|e| e.extn_id.to_string() == "2.5.29.14"),
        "authorityKeyIdentifier": named,
        "requestExtensions":
            {"requested": texts(&asked.iter().collect::<Vec<_>>()), "copied": texts(&copied), "notCopied": texts(&not)},
    })
}

fn name(name: &GeneralName) -> Value {
    match name {
        GeneralName::DnsName(dns) => json!(["dns", dns.as_str()]),
        GeneralName::Rfc822Name(email) => json!(["email", email.as_str()]),
        GeneralName::UniformResourceIdentifier(uri) => json!(["uri", uri.as_str()]),
        GeneralName::IpAddress(ip) => {
            let bytes = ip.as_bytes();
            let text = match <[u8; 4]>::try_from(bytes) {
                Ok(v4) => std::net::Ipv4Addr::from(v4).to_string(),
                Err(_) => std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap()).to_string(),
            };
            json!(["ip", text])
        }
        other => panic!("{other:?}"),
    }
}

/// The extensions that a request asks for.
fn requested(request: &CertReq) -> Vec<ObjectIdentifier> {
    let mut found = Vec::new();
    for attribute in request.info.attributes.iter() {
        if attribute.oid.to_string() == "1.2.840.113549.1.9.14" {
            for value in attribute.values.iter() {
                let all = Vec::<Extension>::from_der(&value.to_der().unwrap()).unwrap();
                found.extend(all.iter().map(|extension| extension.extn_id));
            }
        }
    }
    found
}

#[test]
fn certificates_are_those_that_kubernetes_issues() {
    let mut cases = recorded::lines("certificates/issued.jsonl");
    // The one difference (CS-18): Kubernetes accepts keys on P-224, which are refused here.
    let p224 = cases.iter_mut().find(|case| case["id"] == "key-p224").unwrap();
    p224["create"] = json!({"code": 422, "reason": "Invalid", "fields": ["spec.request"]});
    let mut by_config: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for case in &cases {
        by_config.entry(case["config"].to_string()).or_default().push(case);
    }
    assert!(by_config.len() > 5);
    for cases in by_config.values() {
        let mut server = Server::start(&cases[0]["config"]);
        let waiting: Vec<&&Value> = cases.iter().filter(|case| server.create(case)).collect();
        for case in waiting {
            server.check(case);
        }
    }
}
