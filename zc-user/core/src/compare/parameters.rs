//! Parameters of command lines: `{NAME}` stands for a value, and each command runs once for each
//! value.

use super::PlanError;

/// A parameter with its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    name: String,
    values: Vec<String>,
}

/// A value for each parameter, in their order: the name in braces, and the value.
pub(super) type Choices = Vec<(String, String)>;

impl Parameter {
    /// A parameter with the values of this list, which commas separate. `\,` is a comma in a value.
    pub fn from_list(name: &str, list: &str) -> Self {
        let mut values = vec![String::new()];
        let mut rest = list.chars().peekable();
        while let Some(character) = rest.next() {
            let is_escaped = character == '\\' && rest.peek() == Some(&',');
            match (character, values.last_mut()) {
                (',', _) => values.push(String::new()),
                (_, Some(value)) if is_escaped => value.extend(rest.next()),
                (_, Some(value)) => value.push(character),
                (_, None) => {}
            }
        }
        Self {
            name: name.to_owned(),
            values,
        }
    }

    /// What stands for it in a line.
    fn placeholder(&self) -> String {
        format!("{{{}}}", self.name)
    }
}

/// Every combination of the values; one without any if there are no parameters. Refuses a name that
/// is given twice, and one that none of the lines has.
pub(super) fn all_combinations(
    parameters: &[Parameter],
    lines: &[&String],
) -> Result<Vec<Choices>, PlanError> {
    let mut all = vec![Choices::new()];
    for (index, parameter) in parameters.iter().enumerate() {
        let (name, placeholder) = (&parameter.name, parameter.placeholder());
        if parameters[..index].iter().any(|other| other.name == *name) {
            let why =
                format!("the parameter '{name}' is given twice: give all its values in one list");
            return Err(PlanError(why));
        }
        if !lines.iter().any(|line| line.contains(&placeholder)) {
            let why = format!(
                "no command has the parameter '{name}': write {placeholder} where its values belong"
            );
            return Err(PlanError(why));
        }
        all = all
            .iter()
            .flat_map(|chosen| {
                parameter.values.iter().map(|value| {
                    let mut chosen = chosen.clone();
                    chosen.push((placeholder.clone(), value.clone()));
                    chosen
                })
            })
            .collect();
    }
    Ok(all)
}

/// The line with the values in the place of the parameters. A value is not searched for parameters.
pub(super) fn with_values(line: &str, chosen: &Choices) -> String {
    let first = chosen
        .iter()
        .filter_map(|choice| line.find(&choice.0).map(|start| (start, choice)))
        .min_by_key(|&(start, _)| start);
    let Some((start, (placeholder, value))) = first else {
        return line.to_owned();
    };
    let rest = with_values(&line[start + placeholder.len()..], chosen);
    format!("{}{value}{rest}", &line[..start])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_values_unless_they_are_escaped() {
        for (list, values) in [
            ("4k", &["4k"][..]),
            ("4k,64k", &["4k", "64k"]),
            ("a,", &["a", ""]),
            (r"a\,b,c\d", &["a,b", r"c\d"]),
        ] {
            assert_eq!(Parameter::from_list("n", list).values, values, "{list}");
        }
    }

    #[test]
    fn a_value_is_not_searched_for_parameters() {
        let chosen = [("{a}", "{b}"), ("{b}", "2")];
        let chosen = chosen.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(with_values("x {a} {b} {c}", &chosen.into()), "x {b} 2 {c}");
    }
}
