//! Tells which certificates of a node outlive its Machine (NB-133). Kubernetes cannot revoke them: who reads the event
//! knows what to watch for, and until when.
//!
//! Only certificates whose CertificateSigningRequest still exists are known. Clusters delete issued requests after an
//! hour by default, so older certificates are missing.
//!
//! One task reads and writes, one request after the other, so that the deletion of many Machines is no burst.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_pki::pem;
use portcullis_pki::shown::Shown;
use portcullis_policy::approval::machine::Machine;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;

use super::facts;
use super::lookup::machines_of;
use super::report::COMPONENT;
use super::shared::Shared;
use crate::call::REQUESTS;
use crate::events::{event, write_event};
use crate::lease::Leadership;

/// The maximum number of Machines that wait to be reported.
pub(super) const MOST_MACHINES: usize = 1_000;
/// The maximum number of certificates that are listed of a Machine; the newest are.
pub(super) const MOST_CERTIFICATES: usize = 100;
/// The pause after each event.
const PAUSE: Duration = Duration::from_millis(100);
/// The size in bytes of the parts of a message. The API server refuses messages longer than 1024.
const MOST_HEAD: usize = 400;
const MOST_MESSAGE: usize = 1000;
/// The size in bytes of the node's part of an event's name.
const MOST_NAME: usize = 200;
const REASON: &str = "CertificatesOutliveMachine";

/// A Machine that is gone.
#[derive(Debug)]
pub(super) struct Deleted {
    /// The Machine.
    pub(super) machine: Machine,
    /// The name of its node.
    pub(super) node: String,
    /// The names of the node's requests that have a certificate, at most [`MOST_CERTIFICATES`].
    pub(super) requests: Vec<String>,
    /// The number of further requests.
    pub(super) left_out: usize,
}

/// Reports each Machine, until the future is dropped.
pub(super) async fn tell_all(
    shared: Arc<Shared>,
    leadership: Option<Leadership>,
    mut queue: Receiver<Deleted>,
) {
    while let Some(deleted) = queue.recv().await {
        // NB-57: only the leader writes.
        if leadership.as_ref().is_none_or(Leadership::holds) {
            tell(&shared, &deleted).await;
        }
    }
}

async fn tell(shared: &Shared, deleted: &Deleted) {
    let Deleted { machine, node, requests, left_out } = deleted;
    if is_there(shared, machine).await {
        return;
    }
    let machine = machine.to_string();
    let mut valid = Vec::new();
    for name in requests {
        match shared.workload.find::<Value>(&REQUESTS, name).await {
            Ok(object) => {
                let found = object.and_then(|object| certificate(&object));
                valid.extend(found.filter(|shown| shown.not_after >= shared.clock.now()));
            }
            Err(error) => {
                tracing::warn!(csr = name, %error, "cannot read the certificate of a deleted Machine")
            }
        }
    }
    tracing::info!(machine, node, certificates = valid.len(), left_out, "a Machine was deleted");
    if shared.is_dry_run {
        return;
    }
    for message in messages(&machine, &valid, *left_out) {
        let involved = json!({"apiVersion": "v1", "kind": "Node", "name": node});
        let end = node.char_indices().nth(MOST_NAME).map_or(node.len(), |(end, _)| end);
        let name = node.get(..end).unwrap_or_default().trim_end_matches(['-', '.']);
        let now = facts::instant(shared.clock.now());
        let event = event(COMPONENT, name, &involved, REASON, "Warning", &message, now);
        write_event(&shared.workload, node, &event).await;
        shared.clock.sleep(PAUSE).await;
    }
}

/// Returns whether the Machine exists after all: a list that broke off does not contain all. One that cannot be read counts
/// as gone, as a missing event would be worse than a wrong one.
async fn is_there(shared: &Shared, machine: &Machine) -> bool {
    let machines = machines_of(machine.kind, Some(&machine.namespace));
    match shared.management.find::<Value>(&machines, &machine.name).await {
        Ok(found) => {
            let uid = found.as_ref().and_then(|found| found.pointer("/metadata/uid")).and_then(Value::as_str);
            uid == Some(&machine.uid)
        }
        Err(error) => {
            tracing::warn!(%machine, %error, "cannot read a Machine that seems to be deleted");
            false
        }
    }
}

/// Reads the certificate in the status of a request; none if there is none that can be read.
fn certificate(object: &Value) -> Option<Shown> {
    let text = object.pointer("/status/certificate")?.as_str()?;
    let der = pem::first(&STANDARD.decode(text).ok()?)?.der;
    Shown::read(&der).ok()
}

/// Returns messages that list all certificates, each within the limit.
fn messages(machine: &str, valid: &[Shown], left_out: usize) -> Vec<String> {
    let mut head = format!("Machine {machine}");
    let end = (0..=MOST_HEAD).rev().find(|end| head.is_char_boundary(*end)).unwrap_or(0);
    head.truncate(end);
    head.push_str(" was deleted; certificates of its node that are still valid: ");
    let until = |time: SystemTime| facts::instant(time).to_string();
    let mut entries: Vec<String> = valid
        .iter()
        .map(|shown| format!("serial {} until {}", shown.serial, until(shown.not_after)))
        .collect();
    if left_out > 0 && !entries.is_empty() {
        entries.push(format!("and up to {left_out} older ones"));
    }
    let mut messages: Vec<String> = Vec::new();
    for entry in entries {
        match messages.last_mut() {
            Some(last) if last.len() + entry.len() + 2 <= MOST_MESSAGE => {
                last.push_str(", ");
                last.push_str(&entry);
            }
            _ => messages.push(format!("{head}{entry}")),
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(number: u64) -> Shown {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        Shown {
            common_name: "system:node:n".to_owned(),
            serial: format!("{number:040X}"),
            not_before: at,
            not_after: at,
            names: portcullis_pki::csr::Names::default(),
        }
    }

    #[test]
    fn every_certificate_is_in_one_message_and_none_is_too_long_nb_133() {
        for (machine, count) in [("ns/m".to_owned(), 100), ("é".repeat(5000), 37), ("ns/m".to_owned(), 1)] {
            let valid: Vec<Shown> = (0..count).map(shown).collect();
            let messages = messages(&machine, &valid, 5);
            assert!(messages.iter().all(|message| message.len() <= 1024), "{messages:?}");
            for shown in &valid {
                let listed = |message: &&String| {
                    message.contains(&format!("serial {} until 2027-01-15T", shown.serial))
                };
                assert_eq!(messages.iter().filter(listed).count(), 1, "{}", shown.serial);
            }
            assert!(messages.last().unwrap().ends_with("and up to 5 older ones"));
        }
        assert!(messages("ns/m", &[], 0).is_empty());
    }
}
