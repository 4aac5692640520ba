//! ECDSA on P-224, which the crypto library has not, and Kubernetes accepts (CS-18).
//!
//! Only checking, so only with what everybody may know: nothing here takes care to take the same time for every number.
//! FIPS 186-4, sections 6.4 and D.1.2.2.

use std::sync::LazyLock;

use num_bigint::BigUint;

use crate::der::only;
use x509_cert::der::Tag;

/// How many bytes a coordinate has.
const BYTES: usize = 28;

/// The numbers of the curve `y² = x³ − 3x + b`.
struct Curve {
    /// The field.
    p: BigUint,
    b: BigUint,
    /// How many points there are.
    n: BigUint,
    base: Point,
}

static CURVE: LazyLock<Curve> = LazyLock::new(|| {
    let number = |hex: &[u8]| BigUint::parse_bytes(hex, 16).unwrap_or_default();
    Curve {
        p: number(b"ffffffffffffffffffffffffffffffff000000000000000000000001"),
        b: number(b"b4050a850c04b3abf54132565044b0b7d7bfd8ba270b39432355ffb4"),
        n: number(b"ffffffffffffffffffffffffffff16a2e0b8f03e13dd29455c5c2a3d"),
        base: Point {
            x: number(b"b70e0cbd6bb4bf7f321390b94a03c1d356c21122343280d6115c1d21"),
            y: number(b"bd376388b5f723fb4c22dfe6cd4375a05a07476444d5819985007e34"),
            z: BigUint::from(1_u8),
        },
    }
});

/// A point in Jacobian coordinates: `(x/z², y/z³)`; at infinity when `z` is zero.
#[derive(Clone)]
struct Point {
    x: BigUint,
    y: BigUint,
    z: BigUint,
}

impl Point {
    fn infinity() -> Self {
        Self { x: BigUint::from(1_u8), y: BigUint::from(1_u8), z: BigUint::ZERO }
    }

    fn is_infinity(&self) -> bool {
        self.z == BigUint::ZERO
    }
}

impl Curve {
    fn mul(&self, a: &BigUint, b: &BigUint) -> BigUint {
        a * b % &self.p
    }

    fn times(&self, factor: u8, a: &BigUint) -> BigUint {
        a * factor % &self.p
    }

    fn sub(&self, a: &BigUint, b: &BigUint) -> BigUint {
        (a + &self.p - b) % &self.p
    }

    /// The point of 57 bytes, if it lies on the curve.
    fn point(&self, bytes: &[u8]) -> Option<Point> {
        let coordinates = bytes.strip_prefix(&[4])?;
        if coordinates.len() != 2 * BYTES {
            return None;
        }
        let (x, y) = coordinates.split_at_checked(BYTES)?;
        let (x, y) = (BigUint::from_bytes_be(x), BigUint::from_bytes_be(y));
        if x >= self.p || y >= self.p {
            return None;
        }
        let cube = self.mul(&self.mul(&x, &x), &x);
        let right = (self.sub(&cube, &self.times(3, &x)) + &self.b) % &self.p;
        (self.mul(&y, &y) == right).then(|| Point { x, y, z: BigUint::from(1_u8) })
    }

    fn double(&self, point: &Point) -> Point {
        if point.is_infinity() || point.y == BigUint::ZERO {
            return Point::infinity();
        }
        let delta = self.mul(&point.z, &point.z);
        let gamma = self.mul(&point.y, &point.y);
        let beta = self.mul(&point.x, &gamma);
        let sum = (&point.x + &delta) % &self.p;
        let alpha = self.times(3, &self.mul(&self.sub(&point.x, &delta), &sum));
        let x = self.sub(&self.mul(&alpha, &alpha), &self.times(8, &beta));
        let slope = self.mul(&alpha, &self.sub(&self.times(4, &beta), &x));
        let y = self.sub(&slope, &self.times(8, &self.mul(&gamma, &gamma)));
        let z = self.times(2, &self.mul(&point.y, &point.z));
        Point { x, y, z }
    }

    fn add(&self, a: &Point, b: &Point) -> Point {
        if a.is_infinity() {
            return b.clone();
        }
        if b.is_infinity() {
            return a.clone();
        }
        let (za, zb) = (self.mul(&a.z, &a.z), self.mul(&b.z, &b.z));
        let (ua, ub) = (self.mul(&a.x, &zb), self.mul(&b.x, &za));
        let (sa, sb) = (self.mul(&a.y, &self.mul(&zb, &b.z)), self.mul(&b.y, &self.mul(&za, &a.z)));
        let (h, r) = (self.sub(&ub, &ua), self.sub(&sb, &sa));
        if h == BigUint::ZERO {
            return if r == BigUint::ZERO { self.double(a) } else { Point::infinity() };
        }
        let square = self.mul(&h, &h);
        let cube = self.mul(&square, &h);
        let across = self.mul(&ua, &square);
        let x = self.sub(&self.sub(&self.mul(&r, &r), &cube), &self.times(2, &across));
        let y = self.sub(&self.mul(&r, &self.sub(&across, &x)), &self.mul(&sa, &cube));
        let z = self.mul(&h, &self.mul(&a.z, &b.z));
        Point { x, y, z }
    }

    /// `factor` times the point.
    fn multiply(&self, factor: &BigUint, point: &Point) -> Point {
        let mut sum = Point::infinity();
        for bit in (0..factor.bits()).rev() {
            sum = self.double(&sum);
            if factor.bit(bit) {
                sum = self.add(&sum, point);
            }
        }
        sum
    }
}

/// Whether the holder of this key, a point, has signed this hash.
pub(super) fn has_signed(key: &[u8], hash: &[u8], signature: &[u8]) -> bool {
    let curve = &*CURVE;
    let (Some(key), Some((r, s))) = (curve.point(key), numbers(signature)) else { return false };
    let is_in_range = |number: &BigUint| *number != BigUint::ZERO && *number < curve.n;
    if !is_in_range(&r) || !is_in_range(&s) {
        return false;
    }
    // The leftmost bits of the hash, as many as the order has.
    let e = BigUint::from_bytes_be(hash.get(..BYTES).unwrap_or(hash));
    let Some(w) = s.modinv(&curve.n) else { return false };
    let (u1, u2) = (e * &w % &curve.n, &r * &w % &curve.n);
    let sum = curve.add(&curve.multiply(&u1, &curve.base), &curve.multiply(&u2, &key));
    let Some(inverse) = sum.z.modinv(&curve.p).filter(|_| !sum.is_infinity()) else { return false };
    let x = curve.mul(&sum.x, &curve.mul(&inverse, &inverse));
    x % &curve.n == r
}

/// The two numbers of a signature: an `ECDSA-Sig-Value`.
fn numbers(signature: &[u8]) -> Option<(BigUint, BigUint)> {
    let mut fields = only(signature).ok()?.children(Tag::Sequence).ok()?;
    let mut number = || super::rsa::positive(&fields.required().ok()?);
    let (r, s) = (number()?, number()?);
    fields.optional().ok()?.is_none().then_some((r, s))
}
