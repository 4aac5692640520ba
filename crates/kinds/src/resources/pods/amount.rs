//! Resource lists, such as `{"cpu": "500m"}`: parsing, comparison and sums.

use std::collections::HashMap;

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

/// A sum of quantities by resource, in thousandths, in the order in which the resources came.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    sums: Vec<(String, Total)>,
    places: HashMap<String, usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    thousandths: i128,
    /// Whether it is printed with a binary suffix, like the first summand that is not zero.
    is_binary: bool,
}

impl Totals {
    /// The total requests or limits of all containers: the maximum needed at any time, where init containers run one by
    /// one alongside the sidecars before them. `list` is `requests` or `limits`. Takes time in the number of amounts.
    pub(crate) fn of_containers(spec: &Map, list: &str) -> Self {
        let mut running = Self::default();
        for container in spec.objects("containers") {
            running.add(container, list);
        }
        let mut sidecars = Self::default();
        let mut starting = Self::default();
        for container in spec.objects("initContainers") {
            // What only the sidecars need is never more than at the end, which `running` has.
            for (name, value) in container.object("resources").object(list) {
                let needed = sidecars.entry(name).plus(value);
                starting.entry(name).raise_to(needed);
            }
            if container.text("restartPolicy") == "Always" {
                running.add(container, list);
                sidecars.add(container, list);
            }
        }
        for (name, total) in &starting.sums {
            running.entry(name).raise_to(*total);
        }
        running
    }

    fn add(&mut self, container: &Map, list: &str) {
        for (name, value) in container.object("resources").object(list) {
            let total = self.entry(name);
            *total = total.plus(value);
        }
    }

    fn entry(&mut self, name: &str) -> &mut Total {
        let at = match self.places.get(name) {
            Some(at) => *at,
            None => {
                self.places.insert(name.to_owned(), self.sums.len());
                self.sums.push((name.to_owned(), Total::default()));
                self.sums.len() - 1
            }
        };
        #[expect(clippy::indexing_slicing, reason = "the position was found or made in this list")]
        &mut self.sums[at].1
    }

    /// The sums by resource.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.sums.iter().map(|(name, total)| (name.as_str(), total.quantity()))
    }
}

impl Total {
    fn plus(self, value: &Value) -> Self {
        let is_binary = match self.thousandths {
            0 => value.as_str().is_some_and(|text| text.ends_with('i')),
            _ => self.is_binary,
        };
        Self { thousandths: self.thousandths + i128::from(quantity(Some(value)).scaled(-3)), is_binary }
    }

    fn raise_to(&mut self, other: Self) {
        if other.thousandths > self.thousandths {
            *self = other;
        }
    }

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
    // Most specs are equal as they are written.
    a == b || same_below("", a, b)
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
            // Both are in the order of their keys.
            a.len() == b.len()
                && a.iter().zip(b).all(|((key, value), (other_key, other))| {
                    let inner = if holds_quantities { "divisor" } else { key.as_str() };
                    key == other_key && same_below(inner, value, other)
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
