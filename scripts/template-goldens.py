"""Writes what `transformers` makes of chat templates, for the test that compares ours with it.

Usage, with a virtual environment that has `transformers`, `jinja2` and `numpy`:

    python scripts/template-goldens.py

It writes test/unit/golden/templates.json; the versions used stand in it. The templates are ours, written after the forms that
models' own templates have; `TZ` is set to UTC, and the clock stands still.
"""
import datetime, json, os, pathlib, time

os.environ["TZ"] = "UTC"
time.tzset()
import jinja2, transformers
import transformers.utils.chat_template_utils as chat_template_utils

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOW = datetime.datetime(2026, 3, 7, 14, 5, 9, 250_000)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


chat_template_utils.datetime = Clock

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": " What is 1 < 2 & 'why'? \n"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nBecause."},
    {"role": "user", "content": "Größe 😀?"},
]
SHORT = [{"role": "user", "content": "hi"}]
TWICE = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
TOOLS = [{"type": "function", "function": {"name": "f", "description": 'Does <b>it</b> & "more"', "parameters": {
    "type": "object", "properties": {"x": {"type": "integer"}, "y": {"enum": [1, 2.5, None, True]}}, "required": ["x"]}}}]

# One template a model's family: what is around messages, and what they do with system texts, tools and dates.
FAMILIES = {
    "chatml": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "instruct": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    "headers": "{{- bos_token }}\n{%- if not date_string is defined %}\n    {%- if strftime_now is defined %}\n        {%- set date_string = strftime_now(\"%d %b %Y\") %}\n    {%- else %}\n        {%- set date_string = \"26 Jul 2024\" %}\n    {%- endif %}\n{%- endif %}\n{%- if not tools is defined %}\n    {%- set tools = none %}\n{%- endif %}\n\n{#- The system message is taken out of the list. #}\n{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content']|trim %}\n    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system_message = \"\" %}\n{%- endif %}\n\n{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n{%- if tools is not none %}\n    {{- \"Environment: ipython\\n\" }}\n{%- endif %}\n{{- \"Today Date: \" + date_string + \"\\n\\n\" }}\n{%- if tools is not none %}\n    {%- for t in tools %}\n        {{- t | tojson(indent=4) }}\n        {{- \"\\n\\n\" }}\n    {%- endfor %}\n{%- endif %}\n{{- system_message }}\n{{- \"<|eot_id|>\" }}\n{%- for message in messages %}\n    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}\n        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}\n",
    "thinking": "{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}\n{%- for message in messages[::-1] %}\n    {%- set index = (messages|length - 1) - loop.index0 %}\n    {%- if ns.multi_step_tool and message.role == \"user\" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}\n        {%- set ns.multi_step_tool = false %}\n        {%- set ns.last_query_index = index %}\n    {%- endif %}\n{%- endfor %}\n{%- for message in messages %}\n    {%- set content = message.content if message.content is string else '' %}\n    {%- if message.role == \"assistant\" %}\n        {%- set reasoning = '' %}\n        {%- if '</think>' in content %}\n            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}\n            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n        {%- endif %}\n        {%- if loop.index0 > ns.last_query_index %}\n            {{- '<|assistant|>' + reasoning + '|' + content }}\n        {%- else %}\n            {{- '<|assistant|>' + content }}\n        {%- endif %}\n    {%- else %}\n        {{- '<|' ~ message.role ~ '|>' ~ content }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|assistant|>' }}\n    {%- if enable_thinking is defined and enable_thinking is false %}\n        {{- '<think>\\n\\n</think>\\n\\n' }}\n    {%- endif %}\n{%- endif %}",
    "turns": "{{ bos_token }}\n{%- if messages[0]['role'] == 'system' -%}\n    {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}\n    {%- set loop_messages = messages[1:] -%}\n{%- else -%}\n    {%- set first_user_prefix = \"\" -%}\n    {%- set loop_messages = messages -%}\n{%- endif -%}\n{%- for message in loop_messages -%}\n    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}\n    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else \"\") }}\n    {%- if message['content'] is string -%}\n        {{ message['content'] | trim }}\n    {%- elif message['content'] is iterable -%}\n        {%- for item in message['content'] -%}\n            {%- if item['type'] == 'image' -%}\n                {{ '<image>' }}\n            {%- elif item['type'] == 'text' -%}\n                {{ item['text'] | trim }}\n            {%- endif -%}\n        {%- endfor -%}\n    {%- else -%}\n        {{ raise_exception(\"Invalid content type\") }}\n    {%- endif -%}\n    {{ '<end_of_turn>\n' }}\n{%- endfor -%}\n{%- if add_generation_prompt -%}\n    {{'<start_of_turn>model\n'}}\n{%- endif -%}\n",
    "macros": "{% macro render(message, prefix='> ', last=False) %}{{ prefix }}{{ message.content }}{% if caller is defined and caller %}{{ caller() }}{% endif %}{{ ';' if not last }}{% endmacro %}\n{% for m in messages if m.role != 'system' %}\n  {{ render(m, last=loop.last) }}\n{% else %}\nnothing\n{% endfor %}\n{% call render(messages[0], prefix='# ') %}!{% endcall %}",
    "generation": "{% for message in messages %}\n{% if message.role == 'assistant' %}\n{% generation %}\nA: {{ message.content }}\n{% endgeneration %}\n{% else %}\n{% if message.role == 'system' %}{% continue %}{% endif %}\nU: {{ message.content }}\n{% endif %}\n{% if loop.index > 2 %}{% break %}{% endif %}\n{% endfor %}",
    "tools": "{%- if tools %}\n{{- 'Tools:\\n' }}\n{%- for tool in tools %}{{ tool.function | tojson }}\n{% endfor %}\n{%- for name, param in tools[0].function.parameters.properties.items() %}{{ name }}={{ param.type or 'any' }}{{ ',' if not loop.last }}{% endfor %}\n{%- else %}none{% endif %}{{ documents }}",
    "openai parts": "{% for message in messages %}{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}[{{ part.type }}:{{ part.text }}]{% endfor %}{% endif %}{% endfor %}",
}

# Small ones, each for a piece of the language; rendered with SHORT.
PIECES = """
{{ tools is none }} {{ tools is not none }} {{ tools is defined }} {{ documents }} {{ none }} {{ True }} {{ false }}
{% if tools is not none %}T{% else %}N{% endif %}
{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 < 2 == 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ none == undefined_name }} {{ '1' == 1 }}
{{ '%s is %d, %05.2f%% %r' % ('x', 3, 1.5, 'y') }} {{ '%(a)s' % {'a': 1} }} {{ '%x %X %o %e' % (255, 255, 8, 12345.678) }} {{ '%-5s|%5s|' % ('a', 'b') }}
{{ [1, 'a', None, True, 1.5, (1,), {'k': 'v'}] }} {{ {'a': [1, 2], "b'": none} }} {{ ('a', "it's", 'q"', "\\n") }} {{ [] }} {{ {} }} {{ () }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 4 / 2 }} {{ 2 ** 3 ** 2 }} {{ 2 ** -1 }} {{ 1e3 }} {{ 1.0 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.0001 }} {{ 1_000 }} {{ 0x1f }}
{{ 'abc'[::-1] }} {{ 'abc'[1:] }} {{ 'abc'[-1] }} {{ [1,2,3,4][1:-1] }} {{ [1,2,3,4][::2] }} {{ [1,2,3,4][3:0:-1] }} {{ 'a😀b'[1] }} {{ 'a😀b'|length }} {{ (1,2,3)[:2] }}
{{ missing }}|{{ missing.attr is defined }}
{{ messages[0].nothing }}|{{ messages[0]['nothing'] is defined }}|{{ messages[5] is defined }}|{{ messages[-1].role }}
{{ 'a' ~ 1 ~ none ~ missing ~ 1.0 ~ [1] }} {{ 'a' 'b' }} {{ 'x' * 3 }} {{ [0] * 2 }} {{ [1] + [2] }} {{ (1,) + (2,) }}
{{ 'A-b c'.title() }} {{ 'hELLO wORLD'|title }} {{ 'hELLO'|capitalize }} {{ 'ab'.upper() }} {{ 'x'.join(['a','b']) }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ 'a,b,c'.rsplit(',', 1) }}
{{ '  x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xxaxx'.lstrip('x') }}|{{ 'abc'.replace('b', 'X') }}|{{ 'aaa'.replace('a', 'b', 2) }}|{{ 'abc'.find('c') }}|{{ 'abc'.startswith(('x', 'a')) }}
{{ 'line1\\nline2\\n'.splitlines() }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'pre-x'.removeprefix('pre-') }} {{ 'x.y'.removesuffix('.y') }} {{ 'abab'.count('ab') }} {{ 'ab12'.isalnum() }} {{ '12'.isdigit() }} {{ 'Ab'.islower() }}
{{ 'a {} {1} {x}'.format('p', 'q', x=3) if false else 'f {} {}'.format(1, 'z') }} {{ '{0}-{n}'.format('a', n=None) }} {{ '{{}}'.format() }}
{{ {'b': 1, 'a': 2}|dictsort }} {{ {'b': 1, 'a': 2}.items()|list }} {{ {'a': 1}.get('b', 'd') }} {{ {'a': none}.get('a', 'd') }} {{ {'a': 1}.keys()|list }} {{ {'a': 1}.values()|list }} {{ 'a' in {'a': 1} }}
{{ [3,1,2]|sort }} {{ [3,1,2]|sort(reverse=true) }} {{ ['b','A','c']|sort }} {{ ['b','A']|sort(case_sensitive=true) }} {{ [1,2,3]|first }} {{ [1,2,3]|last }} {{ [1,2,3]|sum }} {{ [1,2,2,1]|unique|list }} {{ [1,2,3]|reverse|list }} {{ [1,2,3]|max }} {{ ['a','B']|min }}
{{ messages|map(attribute='role')|list }} {{ messages|selectattr('role','equalto','user')|list|length }} {{ messages|rejectattr('role','eq','user')|list }} {{ [1,2,3]|select('odd')|list }} {{ ['a','b']|map('upper')|join('-') }} {{ [{'a':{'b':1}}]|map(attribute='a.b')|list }} {{ [{}]|map(attribute='q', default='d')|list }}
{% if messages|selectattr('role','equalto','nobody') %}generators are true{% endif %}
{{ none|default('d') }} {{ none|default('d', true) }} {{ missing|default('d') }} {{ ''|default('d', boolean=true) }} {{ missing|d }} {{ 'x'|default(none) }}
{{ {'a': 'ü<&>\\'"', 'b': [1, 2.0, none, true], 'c': {}}|tojson }} {{ {'b': 1, 'a': [1, {}]}|tojson(indent=2) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ 'ü😀'|tojson(ensure_ascii=true) }} {{ [1, 2]|tojson(separators=(',', ':')) }} {{ {1: 2, none: 3}|tojson }} {{ '\\x7f\\x01'|tojson }}
{{ '1'|int + 1 }} {{ 'x'|int }} {{ '1.9'|int }} {{ 1.9|int }} {{ '0x1f'|int(base=16) }} {{ '2.5'|float }} {{ 3|float }} {{ 2.5|round }} {{ 2.567|round(2) }} {{ 2.1|round(method='ceil') }} {{ -3|abs }} {{ true|int }} {{ 3|string + 'x' }}
{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb'|indent(2, true) }}|{{ 'a'|center(5) }}|{{ 'ab'|center(5) }}|{{ '<a>'|e }}|{{ 'a b c'|wordcount }}|{{ '%s-%s'|format(1, 2) }}|{{ 'aXbX'|replace('X', 'y', 1) }}|{{ ' x '|trim }}|{{ 'xyx'|trim('x') }}
{{ 3 is divisibleby 3 }} {{ 3 is odd }} {{ 2 is even }} {{ 1 is number }} {{ true is number }} {{ true is integer }} {{ 1.0 is float }} {{ 'a' is string }} {{ [] is sequence }} {{ {} is mapping }} {{ {} is sequence }} {{ missing is iterable }} {{ 1 is iterable }} {{ 'a' is in ['a'] }} {{ 1 is eq 1 }} {{ 2 is gt 1 }} {{ none is none }} {{ range is callable }} {{ 'a' is lower }} {{ 'A1' is upper }} {{ 1 is sameas 1 }} {{ 'upper' is filter }} {{ true is true }} {{ 1 is true }} {{ 'x' is not string }}
{{ 1 if true }} {{ 1 if false }}| {{ 1 if false else 2 if false else 3 }} {{ not true or true }} {{ not (true and false) }} {{ 0 or 'x' }} {{ 'a' and 'b' }} {{ 'a' not in 'abc' }} {{ 1 in [1.0] }} {{ 'b' in missing }}
{% for i in range(3) %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %} {% for i in range(5, 0, -2) %}{{ i }}{% endfor %} {% for a, b in [[1, 2], (3, 4)] %}{{ a }}{{ b }}{% endfor %} {% for c in 'aé😀' %}{{ c }}.{% endfor %} {% for k in {'x': 1} %}{{ k }}{% endfor %}
{% for i in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.length }}{{ loop.cycle('a', 'b') }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.changed(i // 2) }} {% endfor %}
{% for i in [] %}x{% else %}empty{% endfor %} {% for i in missing %}x{% else %}none{% endfor %} {% for i in [1, 2, 3, 4] if i is even %}{{ loop.index }}:{{ i }} {% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }} {% if true %}{% set x = 2 %}{% endif %}{{ x }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set t = 1, 2 %}{{ t }}
{% set ns = namespace(n=0, s='') %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }} {% set block %}a {{ 1 + 1 }} b{% endset %}{{ block|length }} {% set up | upper %}abc{% endset %}{{ up }} {% filter upper %}x{{ 'y' }}{% endfilter %} {% with q = 3, r = 4 %}{{ q * r }}{% endwith %}{{ q }}
{% macro m(a, b=2, *args) %}{% endmacro %}
{% macro m(a, b=2) %}{{ a }}-{{ b }}-{{ varargs }}-{{ kwargs }};{% endmacro %}{{ m(1) }}{{ m(1, 3, 4, 5) }}{{ m(b=9, a=8, z=7) }}{{ m() }}{{ m(*[1, 2], **{}) }}
{% macro outer() %}[{{ caller('x') }}]{% endmacro %}{% call(v) outer() %}got {{ v }}{% endcall %}
{% raw %}{{ not }} {% code %}{% endraw %} {#- comment -#} x {# c #}y
a {%- if true -%} b {%- endif -%} c {{- 'd' -}} e {%+ if true +%} f {%+ endif %}
{{ strftime_now('%Y-%m-%d %H:%M:%S %A %a %B %b %j %p %I %y %% %-d %e') }}
{{ dict(a=1, **{'b': 2}) }} {{ dict([('a', 1)]) }} {{ range(3)|list }} {{ namespace is defined }} {{ ['a', 'b']|join(', ') }} {{ [{'n': 1}, {'n': 2}]|join('/', attribute='n') }} {{ [{'g': 1, 'v': 'a'}, {'g': 2, 'v': 'b'}, {'g': 1, 'v': 'c'}]|groupby('g')|length }} {{ [1, 2, 3]|batch(2)|list }} {{ {'a': 1}|items|list }} {{ 'abc'|reverse }} {{ 'abc'|first }} {{ 'abc'|list }}
{{ raise_exception('no: ' + messages[0].role) }}
{{ 1 / 0 }}
{{ missing.attr }}
{{ missing + 1 }}
{{ missing() }}
{{ 'a' + 1 }}
{{ none|length }}
{{ [1].append(2) }}
{{ {'a': 1}.update({}) }}
{{ messages|selectattr('role')|length }}
{{ none < 1 }}
{{ 1 in none }}
{{ missing|tojson }}
{{ '%s %s' % ('a',) }}
{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}
{{ range(100001) }}
{{ namespace(_x=1) }}
{{ messages.0.role }} {{ messages[0]["role"] }} {{ (messages|first).role }} {{ messages[0].get('role') }}
{{ -1|abs }} {{ -2 ** 2 }} {{ 2 * 3 + 4 }} {{ 2 + 3 * 4 }} {{ (2 + 3) * 4 }} {{ 1 - -1 }} {{ ('a' ~ 1) ~ 2 }} {{ 10 - 2 - 3 }} {{ not 1 == 2 }} {{ 'a' if 'b' in 'abc' and not false else 'z' }}
{{ "\\u00e9\\x41\\t|\\'|\\q" }} {{ 'ends\\\\' }} {{ 'multi
line' }}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- 'U' }}
    {%- endif %}
{%- endfor %}
""".strip("\n")


def pieces():
    """One a line; a line that does not begin a tag belongs to the one before."""
    found = []
    for line in PIECES.split("\n"):
        if found and not line.startswith(("{{", "{%", "a {%-")) or line.startswith("{%- endfor"):
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


def world(messages, **more):
    return {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True,
            "bos_token": "<s>", "eos_token": "</s>", **more}


def rendered(template, values):
    try:
        return {"text": chat_template_utils._compile_jinja_template(template).render(**values)}
    except jinja2.exceptions.TemplateSyntaxError as error:
        return {"error": "syntax"}
    except jinja2.exceptions.SecurityError as error:
        return {"error": "fault"}
    except jinja2.exceptions.UndefinedError:
        return {"error": "fault"}
    except jinja2.exceptions.TemplateError as error:
        return {"error": "refusal", "message": str(error)}
    except Exception as error:
        return {"error": "fault"}


def main():
    worlds = {
        "talk": world(TALK), "short": world(SHORT), "twice": world(TWICE), "parts": world(PARTS),
        "tools": world(SHORT, tools=TOOLS), "no prompt": world(TALK, add_generation_prompt=False),
    }
    cases = [
        {"name": f"{name}, {kind}", "template": template, "world": kind, **rendered(template, values)}
        for name, template in FAMILIES.items() for kind, values in worlds.items()
    ]
    cases += [
        {"name": f"piece {index}", "template": template, "world": "short", **rendered(template, worlds["short"])}
        for index, template in enumerate(pieces())
    ]
    golden = {
        "versions": f"transformers {transformers.__version__}, jinja2 {jinja2.__version__}",
        "nowMs": int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp() * 1000),
        "worlds": worlds, "cases": cases,
    }
    path = ROOT / "test/unit/golden/templates.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")
    print(path, len(cases))


main()
