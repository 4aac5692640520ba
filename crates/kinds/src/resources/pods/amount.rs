//! Resource lists, such as `{"cpu": "500m"}`: parsing, comparison and sums.

use portcullis_apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::Map;
use crate::fields::Members;

/// The quantity in a value; zero if it is not a quantity.
pub(super) fn quantity(value: Option<&Value>) -> Quantity {
    value.and_then(|value| Quantity::from_json(value).ok()).unwrap_or_else(|| Quantity::from_integer(0))
}

/// The entries of a resource list.
pub(super) fn resources<'a>(
    requirements: Option<&'a Map>,
    list: &str,
) -> impl Iterator<Item = (&'a str, Quantity)> + use<'a> {
    let entries = requirements.map(|requirements| requirements.object(list));
    entries.into_iter().flatten().map(|(name, value)| (name.as_str(), quantity(Some(value))))
}

/// A sum of quantities by resource, in thousandths.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals(Vec<(String, Total)>);

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    thousandths: i128,
    /// Whether it is printed with a binary suffix, like the first summand that is not zero.
    is_binary: bool,
}

impl Totals {
    /// The total requests or limits of all containers: the maximum needed at any time, where init containers run one by
    /// one alongside the sidecars before them. `list` is `requests` or `limits`.
    pub(super) fn of_containers(spec: &Map, list: &str) -> Self {
        let mut running = Self::default();
        for container in spec.objects("containers") {
            running.add(container, list);
        }
        let mut sidecars = Self::default();
        let mut starting = Self::default();
        for container in spec.objects("initContainers") {
            let mut needed = sidecars.clone();
            needed.add(container, list);
            if container.text("restartPolicy") == "Always" {
                running.add(container, list);
                sidecars = needed.clone();
            }
            starting.raise_to(&needed);
        }
        running.raise_to(&starting);
        running
    }

    fn add(&mut self, container: &Map, list: &str) {
        for (name, value) in container.object("resources").object(list) {
            let quantity = quantity(Some(value));
            let total = self.entry(name);
            if total.thousandths == 0 {
                total.is_binary = value.as_str().is_some_and(|text| text.ends_with('i'));
            }
            total.thousandths += i128::from(quantity.scaled(-3));
        }
    }

    fn raise_to(&mut self, other: &Self) {
        for (name, theirs) in &other.0 {
            let ours = self.entry(name);
            if theirs.thousandths > ours.thousandths {
                *ours = *theirs;
            }
        }
    }

    fn entry(&mut self, name: &str) -> &mut Total {
        let at = self.0.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.0.push((name.to_owned(), Total::default()));
            self.0.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "the position was found or made in this list")]
        &mut self.0[at].1
    }

    /// The sums by resource.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, total)| (name.as_str(), total.quantity()))
    }
}

impl Total {
    fn quantity(self) -> Quantity {
        let text = match (self.thousandths % 1000, self.thousandths / 1000) {
            (0, whole) if self.is_binary => binary(whole),
            _ => format!("{}m", self.thousandths),
        };
        Quantity::parse(&text).unwrap_or_else(|_| Quantity::from_integer(i64::MAX))
    }
}

fn binary(whole: i128) -> String {
    let mut rest = whole;
    let mut suffix = "";
    for larger in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
        if rest == 0 || rest % 1024 != 0 {
            break;
        }
        rest /= 1024;
        suffix = larger;
    }
    format!("{rest}{suffix}")
}

/// Returns whether two specs are equal, comparing quantities by value.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    same_below("", a, b)
}

/// Like [`same`], for optional values.
pub(in crate::resources) fn same_optional(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same(a, b),
        (a, b) => a.is_none_or(Value::is_null) && b.is_none_or(Value::is_null),
    }
}

fn same_below(name: &str, a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let holds_quantities = matches!(name, "limits" | "requests" | "overhead");
            a.len() == b.len()
                && a.iter().all(|(key, value)| {
                    let inner = if holds_quantities { "divisor" } else { key.as_str() };
                    b.get(key).is_some_and(|other| same_below(inner, value, other))
                })
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_below("", a, b))
        }
        (Value::String(_), Value::String(_)) if matches!(name, "divisor" | "sizeLimit") => {
            quantity(Some(a)) == quantity(Some(b))
        }
        _ => a == b,
    }
}
