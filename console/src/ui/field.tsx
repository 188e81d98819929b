// Fields with a label, a hint and an error that states the fact and the limit.
import { TriangleAlert } from 'lucide-react';
import type { ReactNode, Ref } from 'react';
import {
  NumberField as AriaNumberField,
  TextField as AriaTextField,
  FieldError,
  Input,
  Label,
  Text,
  TextArea,
} from 'react-aria-components';

interface Common {
  label: string;
  /** The label is for those who cannot see the field only. */
  hideLabel?: boolean;
  hint?: ReactNode;
  /** What is wrong with the value: "7 characters. Use at least 12." */
  error?: string | null;
  isDisabled?: boolean;
  isRequired?: boolean;
  className?: string;
}

export interface TextFieldProps extends Common {
  value: string;
  onChange: (value: string) => void;
  type?: 'text' | 'password' | 'url' | 'email' | 'search';
  placeholder?: string;
  name?: string;
  autoComplete?: string;
  autoFocus?: boolean;
  mono?: boolean;
  size?: 'md' | 'lg';
  /** Several lines. */
  rows?: number;
  maxLength?: number;
  /** In the field, before and after the text. */
  before?: ReactNode;
  after?: ReactNode;
  inputRef?: Ref<HTMLInputElement>;
  onKeyDown?: (event: React.KeyboardEvent) => void;
}

function Legend({ label, hideLabel }: Pick<Common, 'label' | 'hideLabel'>) {
  return <Label className={hideLabel ? 'sr' : undefined}>{label}</Label>;
}

function Notes({ hint, error }: Pick<Common, 'hint' | 'error'>) {
  return (
    <>
      {hint && !error && (
        <Text slot="description" className="hint">
          {hint}
        </Text>
      )}
      <FieldError className="error">
        <TriangleAlert />
        {error}
      </FieldError>
    </>
  );
}

export function TextField(props: TextFieldProps) {
  const { label, hideLabel, hint, error, className, mono, size, rows, before, after, inputRef, placeholder, ...rest } =
    props;
  const box = ['input', mono ? 'mono' : '', size === 'lg' ? 'lg' : ''].filter(Boolean).join(' ');
  return (
    <AriaTextField
      {...rest}
      isInvalid={Boolean(error)}
      validationBehavior="aria"
      className={['field', error ? 'bad' : '', className ?? ''].join(' ')}
    >
      <Legend label={label} hideLabel={hideLabel} />
      {rows ? (
        <TextArea className={`${box} area`} rows={rows} placeholder={placeholder} spellCheck={!mono} />
      ) : (
        <span className={box}>
          {before}
          <Input ref={inputRef} placeholder={placeholder} spellCheck={mono ? 'false' : undefined} />
          {after}
        </span>
      )}
      <Notes hint={hint} error={error} />
    </AriaTextField>
  );
}

export interface NumberFieldProps extends Common {
  value: number | null;
  onChange: (value: number | null) => void;
  min?: number;
  max?: number;
  step?: number;
  /** After the number: "s", "GiB". */
  unit?: string;
}

export function NumberField({
  label,
  hideLabel,
  hint,
  error,
  className,
  value,
  onChange,
  min,
  max,
  unit,
  ...rest
}: NumberFieldProps) {
  return (
    <AriaNumberField
      {...rest}
      value={value ?? Number.NaN}
      onChange={(next) => onChange(Number.isNaN(next) ? null : next)}
      formatOptions={{ useGrouping: false }}
      minValue={min}
      maxValue={max}
      isInvalid={Boolean(error)}
      validationBehavior="aria"
      className={['field', error ? 'bad' : '', className ?? ''].join(' ')}
    >
      <Legend label={label} hideLabel={hideLabel} />
      <span className="input num">
        <Input />
        {unit && <span className="meta">{unit}</span>}
      </span>
      <Notes hint={hint} error={error} />
    </AriaNumberField>
  );
}
