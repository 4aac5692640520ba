//! Prints the findings of `audit kubelet-access`. Names come from the cluster, so they are escaped for the terminal.

use std::io::{self, Write};

use portcullis_policy::audit::kubelet_access::{Basis, Execution, Grant, Holder, Replacement, Report};
use serde_json::{Value, json};

use crate::terminal::plain;
use crate::yaml;

/// Prints findings, notes, and sufficient rules for people.
pub(super) fn table(
    out: &mut dyn Write,
    report: &Report,
    replacements: &[Replacement],
    revision: Option<u64>,
    is_wide: bool,
) -> io::Result<()> {
    if report.holders.is_empty() {
        writeln!(out, "nobody holds nodes/proxy")?;
    } else {
        crate::table::columns(out, &rows(report, is_wide))?;
    }
    if let Some(revision) = revision {
        writeln!(out, "\nnote: as of revision {revision} of etcd")?;
    }
    for holder in &report.holders {
        if let Some(meaning) = holder.subject.meaning() {
            writeln!(out, "\nnote: {} is {meaning}", plain(&holder.subject.to_string()))?;
        }
    }
    for note in &report.notes {
        writeln!(out, "\nnote: {}", plain(&note.to_string()))?;
    }
    if !replacements.is_empty() {
        let unknown = "kubelets before 1.33 do not know nodes/pods, nodes/healthz and nodes/configz, unless a guard stands \
                       in front of them";
        writeln!(out, "\nWhat would be enough instead ({unknown}):\n")?;
        manifests(out, replacements)?;
    }
    Ok(())
}

fn rows(report: &Report, is_wide: bool) -> Vec<Vec<String>> {
    let mut head = vec!["HOLDER", "VERBS", "NODES", "RUNS CODE", "BEHIND A GUARD"];
    head.extend(if is_wide { &["BINDING", "ROLE", "RULE", "RESOURCES"][..] } else { &["THROUGH"] });
    let mut rows = vec![head.into_iter().map(str::to_owned).collect()];
    for holder in &report.holders {
        rows.extend(holder.grants.iter().map(|grant| row(holder, grant, is_wide)));
    }
    rows
}

fn row(holder: &Holder, grant: &Grant, is_wide: bool) -> Vec<String> {
    let alone = Holder { subject: holder.subject.clone(), grants: vec![grant.clone()] };
    let Execution { by_websocket, by_post, behind_guard } = alone.execution();
    let nodes =
        if grant.resource_names.is_empty() { "all".to_owned() } else { grant.resource_names.join(",") };
    let code = match (by_websocket, by_post) {
        (true, true) => "yes (GET, POST)",
        (true, false) => "yes (GET)",
        (false, true) => "yes (POST)",
        (false, false) => "no",
    };
    let behind_guard = if behind_guard { "yes" } else { "no" };
    let rule = grant.rule.map_or("to be collected".to_owned(), |rule| format!("rules[{rule}]"));
    let from = if grant.aggregated_from.is_empty() {
        String::new()
    } else {
        format!(" from {}", grant.aggregated_from.join(","))
    };
    let mut row = vec![
        holder.subject.to_string(),
        grant.verbs.join(","),
        nodes,
        code.to_owned(),
        behind_guard.to_owned(),
    ];
    if is_wide {
        row.extend([
            grant.binding.clone(),
            grant.role.clone(),
            format!("{rule}{from}"),
            grant.resources.join(","),
        ]);
    } else {
        row.push(format!("{} -> {} {rule}{from}", grant.binding, grant.role));
    }
    row.iter().map(|cell| plain(cell)).collect()
}

/// Prints everything as JSON.
pub(super) fn json(
    out: &mut dyn Write,
    report: &Report,
    replacements: &[Replacement],
    revision: Option<u64>,
) -> io::Result<()> {
    let holder = |holder: &Holder| {
        json!({
            "subject": holder.subject,
            "meaning": holder.subject.meaning(),
            "verbs": holder.verbs(),
            "nodes": holder.nodes(),
            "runsCode": holder.execution().at_bare_kubelet(),
            "execution": holder.execution(),
            "grants": holder.grants,
        })
    };
    let replacement = |replacement: &Replacement| {
        json!({
            "subject": replacement.subject,
            "basis": match replacement.basis {
                Basis::Verbs => "verbs",
                Basis::Evidence => "evidence",
            },
            "remarks": replacement.remarks,
            "objects": replacement.objects(),
        })
    };
    let mut document = json!({
        "holders": report.holders.iter().map(holder).collect::<Vec<_>>(),
        "notes": report.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "replacements": replacements.iter().map(replacement).collect::<Vec<_>>(),
    });
    if let (Some(revision), Some(members)) = (revision, document.as_object_mut()) {
        members.insert("etcdRevision".to_owned(), revision.into());
    }
    writeln!(out, "{document:#}")
}

/// Prints the rules for `kubectl apply`. Notes are printed as comments.
pub(super) fn manifests(out: &mut dyn Write, replacements: &[Replacement]) -> io::Result<()> {
    for replacement in replacements {
        let objects: Vec<Value> = replacement.objects();
        writeln!(out, "# {}", plain(&replacement.subject.to_string()))?;
        for remark in &replacement.remarks {
            writeln!(out, "# {}", plain(remark))?;
        }
        if objects.is_empty() {
            writeln!(out, "# no rules")?;
        }
        for object in &objects {
            write!(out, "---\n{}", yaml::block(object))?;
        }
    }
    Ok(())
}

/// Prints the holders, one per line.
pub(super) fn names(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    report.holders.iter().try_for_each(|holder| writeln!(out, "{}", plain(&holder.subject.to_string())))
}
