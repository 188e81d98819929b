// Writes src/wire.ts, the types of the API, from openapi/cabana.json. With --check, fails if they differ.
import { readFileSync, writeFileSync } from 'node:fs';

interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  enum?: unknown[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
}

const source = new URL('../../openapi/cabana.json', import.meta.url);
const target = new URL('../src/wire.ts', import.meta.url);
const WIDTH = 120;

function comment(text: string | undefined, indent: string): string {
  const words = text?.trim().replaceAll('*/', '* /').split(/\s+/);
  if (!words?.[0]) return '';
  const lines = [''];
  for (const word of words) {
    const last = lines[lines.length - 1] ?? '';
    if (last && indent.length + 7 + last.length + word.length + 1 > WIDTH) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}\n`).join('')}${indent} */\n`;
}

function object(schema: Schema, indent: string): string {
  const required = new Set(schema.required);
  const inner = `${indent}  `;
  const fields = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
    return `${comment(field.description, inner)}${inner}${key}${required.has(name) ? '' : '?'}: ${type(field, inner)};\n`;
  });
  return `{\n${fields.join('')}${indent}}`;
}

function single(name: string, schema: Schema, indent: string): string {
  switch (name) {
    case 'string':
    case 'boolean':
    case 'null':
      return name;
    case 'integer':
    case 'number':
      return 'number';
    case 'array': {
      const item = type(schema.items ?? {}, indent);
      return item.includes(' ') && !item.endsWith('}') ? `(${item})[]` : `${item}[]`;
    }
    case 'object': {
      if (schema.properties) return object(schema, indent);
      const value = schema.additionalProperties;
      return `Record<string, ${typeof value === 'object' ? type(value, indent) : 'unknown'}>`;
    }
    default:
      throw new Error(`unknown type ${name}`);
  }
}

function type(schema: Schema, indent = ''): string {
  if (schema.$ref) return schema.$ref.split('/').at(-1) ?? 'unknown';
  const union = schema.oneOf ?? schema.anyOf;
  if (union) return [...new Set(union.map((s) => type(s, indent)))].join(' | ');
  if (schema.allOf) return schema.allOf.map((s) => type(s, indent)).join(' & ');
  if (schema.enum) return schema.enum.map((v) => (typeof v === 'string' ? `'${v}'` : JSON.stringify(v))).join(' | ');
  const names = schema.type === undefined ? (schema.properties ? ['object'] : []) : [schema.type].flat();
  if (names.length === 0) return 'unknown';
  return names.map((name) => single(name, schema, indent)).join(' | ');
}

function declaration(name: string, schema: Schema): string {
  const head = comment(schema.description, '');
  const plain = schema.properties && !schema.oneOf && !schema.anyOf && !schema.allOf;
  if (plain) return `${head}export interface ${name} ${object(schema, '')}\n`;
  const text = type(schema);
  const lines = schema.enum && text.length > 100 ? `\n  | ${text.split(' | ').join('\n  | ')}` : ` ${text}`;
  return `${head}export type ${name} =${lines};\n`;
}

const schemas: Record<string, Schema> = JSON.parse(readFileSync(source, 'utf8')).components.schemas;
const text = [
  '// Written by `npm run wire` from openapi/cabana.json. Do not edit.\n',
  ...Object.entries(schemas).map(([name, schema]) => declaration(name, schema)),
].join('\n');

if (process.argv.includes('--check')) {
  if (readFileSync(target, 'utf8') !== text) {
    console.error('error: src/wire.ts is not what openapi/cabana.json says\n\nhint: npm run wire');
    process.exit(1);
  }
} else {
  writeFileSync(target, text);
}
