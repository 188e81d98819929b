//! Licence expressions of packages: whether what is allowed suffices.

/// Whether `expression` (SPDX, or the older `A/B`) can be met with licences that are `allowed`.
pub(super) fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any(&mut words, allowed) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words, allowed: &[String]) -> bool {
    let mut met = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, allowed);
    }
    met
}

fn all(words: &mut Words, allowed: &[String]) -> bool {
    let mut met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Words, allowed: &[String]) -> bool {
    match words.next() {
        Some("(") => any(words, allowed) && words.next() == Some(")"),
        Some(name) => {
            let mut licence = name.to_owned();
            if words.next_if_eq(&"WITH").is_some() {
                licence = format!("{name} WITH {}", words.next().unwrap_or_default());
            }
            allowed.contains(&licence)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let allowed = ["MIT", "ISC", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "Apache-2.0 / MIT",
            "(MIT OR GPL-3.0) AND ISC",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR X) AND MIT", "MIT WITH X", "", "MIT MIT", "(MIT"] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }
}
