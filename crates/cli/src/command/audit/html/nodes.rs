//! The tables of nodes and workloads. They are for readers without scripts: scripts make them from the data, a part at a time, so that
//! the browser need not build thousands of rows.

use std::collections::BTreeSet;

use portcullis_policy::audit::reach::{MapNode, MapWorkload, VertexType};

use super::content::Content;
use super::escape::{attribute, name, number, text};
use super::fold::Folded;
use super::words::{admin, kind_of};

const HEAD: &str = "<div class=wide tabindex=\"0\" role=\"region\" aria-label=\"Reach by node\"><table class=reach><thead><tr><th scope=col \
    rowspan=\"2\">Node</th><th scope=col rowspan=\"2\">Cluster admin</th><th scope=colgroup colspan=\"5\">By itself</th><th scope=colgroup \
    colspan=\"4\">In the end</th></tr><tr><th scope=col>Pods</th><th scope=col>Secrets</th><th scope=col>ConfigMaps</th><th \
    scope=col>Volumes</th><th scope=col>Accounts</th><th scope=col>Other nodes</th><th scope=col>Pods elsewhere</th><th \
    scope=col>Secrets</th><th scope=col>Accounts</th></tr></thead>";

/// The nodes, each with what it reaches and what runs on it.
pub(super) fn nodes(content: &Content<'_>, folded: &Folded) -> String {
    let mut out = String::new();
    if !folded.classes.is_empty() {
        out.push_str(&format!(
            "<p class=note>To keep this page below 5 MB, the {} nodes with the least reach are folded into {} classes at the end of the \
             table. Their numbers are the largest of the class. The names of their pods are left out. <code>portcullis reach --node \
             NAME</code> shows one node in full.</p>\n",
            number(folded.nodes.len()),
            number(folded.classes.len())
        ));
    }
    let on_nodes = content.on_nodes();
    let common = common(&on_nodes);
    let also = match common.is_empty() {
        true => String::new(),
        false => format!(" Every node also runs: {}", runs(content, &common)),
    };
    out.push_str(&format!("<noscript><p class=lead>Under each node are its workloads.{also}</p>\n{HEAD}"));
    for (place, (node, on)) in content.map.nodes.iter().zip(&on_nodes).enumerate() {
        if !folded.nodes.contains(&place) {
            out.push('\n');
            out.push_str(&row(content, place, node, &on.difference(&common).copied().collect()));
        }
    }
    for (place, class) in (1..).zip(&folded.classes) {
        let names: Vec<String> = class.nodes.iter().map(|place| name(content.node(*place))).collect();
        out.push_str(&format!(
            "\n<tbody class=folded id=\"folded/{place}\"><tr><th scope=row>{} folded nodes{}<tr class=runs><td colspan=11><b>Each of them \
             at most this.</b> {}",
            number(names.len()),
            cells(&class.most),
            names.join(" ")
        ));
    }
    out.push_str("\n</table></div></noscript>");
    out
}

/// The workloads that run on every node.
fn common(on_nodes: &[BTreeSet<u32>]) -> BTreeSet<u32> {
    match on_nodes {
        [first, rest @ ..] if !rest.is_empty() => {
            first.iter().copied().filter(|workload| rest.iter().all(|on| on.contains(workload))).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// A row of numbers, and a row with what runs there. Ends of cells and rows are left out, as HTML allows.
fn row(content: &Content<'_>, place: usize, node: &MapNode, on: &BTreeSet<u32>) -> String {
    let of = content.node(place);
    let runs = match on.is_empty() {
        true => String::new(),
        false => format!("<tr class=runs><td colspan=11>{}", runs(content, on)),
    };
    format!("<tbody id=\"node/{}\"><tr><th scope=row>{}{}{runs}", attribute(of), name(of), cells(node))
}

fn cells(node: &MapNode) -> String {
    let (direct, end) = (&node.direct, &node.size.counts);
    let way = node.way.map(|way| way.saturating_add(1));
    let way = way.map(|way| format!(" <a href=\"#way/{way}\">path {way}</a>")).unwrap_or_default();
    let all = if end.secrets.all { " <i>all</i>" } else { "" };
    let before = [direct.pods, direct.secrets, direct.configmaps, direct.volumes, direct.accounts];
    let before = before.into_iter().chain([end.nodes, end.pods.of_others, end.secrets.count]);
    let before: Vec<String> = before.map(|count| format!("<td>{}", number(count))).collect();
    format!(
        "<td>{}{way}{}{all}<td>{}",
        admin(node.size.cluster_admin),
        before.concat(),
        number(end.serviceaccounts)
    )
}

/// Workloads by namespace, with links to their rows.
fn runs(content: &Content<'_>, on: &BTreeSet<u32>) -> String {
    let mut out = String::new();
    let mut last = None;
    for number in on {
        let Some(workload) = content.map.workloads.get(*number as usize) else { continue };
        if last == Some(&workload.namespace) {
            out.push_str(", ");
        } else {
            let before = if last.is_some() { "; " } else { "" };
            out.push_str(&format!("{before}<b>{}</b> ", name(&workload.namespace)));
        }
        out.push_str(&format!("<a href=#w/{number}>{}</a>", name(&workload.name)));
        last = Some(&workload.namespace);
    }
    out
}

/// The workloads, each with what its nodes may read because of it.
pub(super) fn workloads(content: &Content<'_>) -> String {
    let mut counts = vec![(0_usize, BTreeSet::new()); content.map.workloads.len()];
    for pod in &content.map.pods {
        if let Some((pods, nodes)) = counts.get_mut(pod.workload as usize) {
            *pods = pods.saturating_add(1);
            nodes.extend(pod.node);
        }
    }
    let mut out = "<noscript><div class=wide tabindex=\"0\" role=\"region\" aria-label=\"Workloads\"><table class=workloads><thead><tr><th \
                   scope=col>Workload</th><th scope=col>Pods</th><th scope=col>Nodes</th><th scope=col>Service account</th><th \
                   scope=col>What its node may read</th></tr></thead><tbody>"
        .to_owned();
    for (place, (workload, (pods, nodes))) in content.map.workloads.iter().zip(&counts).enumerate() {
        let kind = if workload.kind == "Node" { "static Pod" } else { &workload.kind };
        let escape = if workload.can_leave { " <span class=tag>can leave its container</span>" } else { "" };
        out.push_str(&format!(
            "\n<tr id=w/{place}><th scope=row><span class=k>{}</span> {}{escape}<td>{}<td>{}<td>{}<td>{}",
            text(kind),
            name(&format!("{}/{}", workload.namespace, workload.name)),
            number(*pods),
            number(nodes.len()),
            account(content, workload),
            reads(content, workload)
        ));
    }
    out.push_str("\n</tbody></table></div></noscript>");
    out
}

fn account(content: &Content<'_>, workload: &MapWorkload) -> String {
    let account = workload.account.and_then(|account| content.map.vertices.get(account as usize));
    let Some(account) = account else { return "<i>none</i>".to_owned() };
    let token = if workload.has_token { "" } else { " <i>no API token</i>" };
    format!("{}{token}", name(&account.name))
}

/// The objects that nodes may read because of a workload, by type.
fn reads(content: &Content<'_>, workload: &MapWorkload) -> String {
    let objects = workload.objects.iter().filter_map(|id| content.map.vertices.get(*id as usize));
    let objects: Vec<(VertexType, &str)> =
        objects.map(|vertex| (vertex.kind, vertex.name.as_str())).collect();
    let by_kind = objects.chunk_by(|(a, _), (b, _)| a == b).map(|some| {
        let kind = some.first().map(|(kind, _)| kind_of(*kind)).unwrap_or_default();
        let names: Vec<String> = some.iter().map(|(_, of)| name(of)).collect();
        format!("<span class=k>{kind}</span> {}", names.join(", "))
    });
    by_kind.collect::<Vec<String>>().join("; ")
}
