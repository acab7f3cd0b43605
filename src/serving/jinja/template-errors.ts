/** The template uses something of Jinja that is not built; found when it is compiled. The message names it. */
export class TemplateGap extends Error {
  override readonly name = "TemplateGap";
}

/** The template itself is wrong: its syntax, a type, a bound that it passes. The message says what, without any path. */
export class TemplateFault extends Error {
  override readonly name = "TemplateFault";
}

/** The template called `raise_exception`: it refuses these messages, in its own words. */
export class TemplateRefusal extends Error {
  override readonly name = "TemplateRefusal";
}
