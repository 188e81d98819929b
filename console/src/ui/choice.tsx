// Choosing: select, segmented control, slider, switch, checkbox.
import { Check } from 'lucide-react';
import type { CSSProperties, ReactNode } from 'react';
import {
  Select as AriaSelect,
  Slider as AriaSlider,
  Button,
  Label,
  ListBox,
  ListBoxItem,
  Popover,
  SelectValue,
  SliderOutput,
  SliderThumb,
  SliderTrack,
  ToggleButton,
  ToggleButtonGroup,
} from 'react-aria-components';

export interface Option<T extends string = string> {
  id: T;
  label: string;
  note?: string;
  disabled?: boolean;
}

export interface SelectProps<T extends string> {
  label: string;
  hideLabel?: boolean;
  value: T;
  onChange: (value: T) => void;
  options: readonly Option<T>[];
  hint?: ReactNode;
  isDisabled?: boolean;
  className?: string;
}

export function Select<T extends string>({
  label,
  hideLabel,
  options,
  hint,
  className,
  value,
  onChange,
  isDisabled,
}: SelectProps<T>) {
  return (
    <AriaSelect
      value={value}
      onChange={(key) => key !== null && onChange(key as T)}
      isDisabled={isDisabled}
      className={`field ${className ?? ''}`}
    >
      <Label className={hideLabel ? 'sr' : undefined}>{label}</Label>
      <Button className="select">
        {/* Without the note, which has its place in the list. */}
        <SelectValue className="grow cut">
          {({ selectedText, defaultChildren }) => selectedText || defaultChildren}
        </SelectValue>
      </Button>
      {hint && <span className="hint">{hint}</span>}
      <Popover className="popover" offset={4}>
        <ListBox className="menu" items={options}>
          {(option) => (
            <ListBoxItem id={option.id} textValue={option.label} isDisabled={option.disabled}>
              {({ isSelected }) => (
                <>
                  <span className="cut">{option.label}</span>
                  {option.note && <span className="end meta">{option.note}</span>}
                  {isSelected && <Check className={option.note ? 'lucide' : 'lucide end'} />}
                </>
              )}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </AriaSelect>
  );
}

export interface SegmentedProps<T extends string> {
  label: string;
  value: T;
  onChange: (value: T) => void;
  options: readonly { id: T; label: ReactNode }[];
  size?: 'sm' | 'md';
}

/** Few choices, all seen at once. */
export function Segmented<T extends string>({ label, value, onChange, options, size = 'md' }: SegmentedProps<T>) {
  return (
    <ToggleButtonGroup
      aria-label={label}
      selectionMode="single"
      disallowEmptySelection
      selectedKeys={[value]}
      onSelectionChange={(keys) => {
        const [first] = keys;
        if (first !== undefined) onChange(first as T);
      }}
      className={size === 'sm' ? 'seg sm' : 'seg'}
    >
      {options.map((option) => (
        <ToggleButton key={option.id} id={option.id}>
          {option.label}
        </ToggleButton>
      ))}
    </ToggleButtonGroup>
  );
}

export interface SliderProps {
  label: string;
  value: number;
  onChange: (value: number) => void;
  min: number;
  max: number;
  step?: number;
  /** The value in words: "2 GiB". */
  format?: (value: number) => string;
  isDisabled?: boolean;
}

export function Slider({ label, value, onChange, min, max, step = 1, format = String, isDisabled }: SliderProps) {
  const at = max > min ? ((value - min) / (max - min)) * 100 : 0;
  return (
    <AriaSlider
      value={value}
      onChange={(next) => onChange(Number(next))}
      minValue={min}
      maxValue={max}
      step={step}
      isDisabled={isDisabled}
      className="slider"
    >
      <div className="row">
        <Label className="label">{label}</Label>
        <SliderOutput className="num slider-value">{format(value)}</SliderOutput>
      </div>
      <SliderTrack className="slider-track" style={{ '--at': `${at}%` } as CSSProperties}>
        <SliderThumb className="slider-thumb" aria-label={label} />
      </SliderTrack>
    </AriaSlider>
  );
}

interface TickProps {
  isSelected: boolean;
  onChange: (selected: boolean) => void;
  children?: ReactNode;
  /** Where there is no text beside it. */
  label?: string;
  isDisabled?: boolean;
}

/** On or off, at once. */
export function Switch({ isSelected, onChange, children, label, isDisabled }: TickProps) {
  return (
    <label className="row tick">
      <input
        type="checkbox"
        role="switch"
        aria-checked={isSelected}
        className="switch"
        aria-label={label}
        checked={isSelected}
        disabled={isDisabled}
        onChange={(event) => onChange(event.target.checked)}
      />
      {children}
    </label>
  );
}

export function Checkbox({
  isSelected,
  onChange,
  children,
  label,
  isDisabled,
  isMixed,
}: TickProps & { isMixed?: boolean }) {
  return (
    <label className="row tick">
      <input
        type="checkbox"
        className="check"
        aria-label={label}
        checked={isSelected}
        disabled={isDisabled}
        ref={(input) => {
          if (input) input.indeterminate = Boolean(isMixed);
        }}
        onChange={(event) => onChange(event.target.checked)}
      />
      {children}
    </label>
  );
}
