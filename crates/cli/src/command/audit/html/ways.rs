//! The ends of paths to admin that nodes share.

use portcullis_policy::audit::reach::{MapGrant, MapStep, MapWay, STEPS, VertexType};

use super::content::Content;
use super::escape::{attribute, name, nodes, text};
use super::words::{EVERYTHING, admin, kind_of};

/// The number of the step from a machine of the control plane.
const CONTROL_PLANE: u8 = 31;

/// The ends, those that most nodes share first.
pub(super) fn ways(content: &Content<'_>) -> String {
    if content.map.ways.is_empty() {
        return "<p class=none>No node has a path to cluster admin.</p>".to_owned();
    }
    let ways = (1..).zip(&content.map.ways);
    ways.map(|(place, way)| article(content, place, way)).collect::<Vec<String>>().join("\n")
}

fn article(content: &Content<'_>, place: usize, way: &MapWay) -> String {
    let (start, words) = start(content, way);
    let steps: String = way.steps.iter().map(|step| self::step(content, *step)).collect();
    format!(
        "<article class=way id=\"way/{place}\" data-start=\"{}\"><h3><span class=num>Path {place}</span> {words}<span class=on>{}</span> \
         {}</h3><ol class=chain>{steps}</ol></article>",
        attribute(&start),
        nodes(way.nodes),
        admin(way.admin)
    )
}

/// Where the end starts: for the picture, and for people.
fn start(content: &Content<'_>, way: &MapWay) -> (String, String) {
    let Some(first) = way.steps.first() else { return Default::default() };
    match content.vertex(first.to) {
        (VertexType::Admin, _) if first.number == CONTROL_PLANE => {
            ("the control plane".to_owned(), "the control plane on the node".to_owned())
        }
        (VertexType::Admin, _) => ("the node itself".to_owned(), "the rights of the node itself".to_owned()),
        (kind, label) => {
            let words = format!("<span class=k>{}</span> {}", kind_of(kind), name(&label));
            (label, words)
        }
    }
}

/// One step: the number of the edge, where it leads, what kind of step that is, and the grant that makes it.
fn step(content: &Content<'_>, step: MapStep) -> String {
    let MapStep { number, to, grant } = step;
    let (kind, label) = content.vertex(to);
    let label = if kind == VertexType::Admin { EVERYTHING.to_owned() } else { label };
    let title = usize::from(number).checked_sub(1).and_then(|place| STEPS.get(place));
    let title = title.map(|(title, _)| *title).unwrap_or_default();
    let grant = grant.and_then(|grant| content.map.grants.get(grant as usize));
    let grant = grant.map(|grant| format!(". {}", by(grant))).unwrap_or_default();
    format!(
        "<li><a class=edge href=\"#step/E{number}\">E{number}</a> <span class=k>{}</span> {}<span class=grant>{}{grant}</span></li>",
        kind_of(kind),
        name(&label),
        text(title)
    )
}

/// A grant in words.
fn by(grant: &MapGrant) -> String {
    let (kind, namespace, binding) = &grant.binding;
    let binding = if namespace.is_empty() { binding.clone() } else { format!("{namespace}/{binding}") };
    let rule = match grant.rule {
        Some(rule) => format!(", rule {rule}"),
        None => ", rule to be added by aggregation".to_owned(),
    };
    let from = match grant.aggregated_from.is_empty() {
        true => String::new(),
        false => format!(" from {}", name(&grant.aggregated_from.join(", "))),
    };
    format!(
        "{} {} to {} {}{rule}{from}: <code>{}</code>",
        text(kind),
        name(&binding),
        text(&grant.role.0),
        name(&grant.role.1),
        text(&grant.text)
    )
}
